// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/p2p/ends.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "bench/raw/sockets.h"

namespace fusewire::bench {
namespace {

constexpr size_t kAhead = 4 << 20;
constexpr size_t kDepthMax = 64;

struct Kind {
  const char* name;
  size_t bytes;
  bool is_round_trip;
};
// With _busy_ and _parked_ for round trips, and with each wire.
constexpr Kind kKinds[] = {
    {"rtt_64B", 64, true},       {"rtt_4KiB", 4 << 10, true},   {"rtt_64KiB", 64 << 10, true},
    {"rtt_1MiB", 1 << 20, true}, {"rate_100B", 100, false},     {"bw_64KiB", 64 << 10, false},
    {"bw_1MiB", 1 << 20, false}, {"bw_16MiB", 16 << 20, false},
};

MakeEnd make_end = nullptr;

const Kind& KindOf(const Options& options) {
  for (const Kind& kind : kKinds) {
    if (options.case_name.starts_with(std::string(kind.name) + "_")) return kind;
  }
  Die("--case " + options.case_name + " is unknown: see bench/README.md");
}

Way WayOf(const Options& options) {
  Way way;
  way.bytes = KindOf(options).bytes;
  way.wire = options.case_name.substr(options.case_name.rfind('_') + 1);
  way.busy = options.case_name.find("_busy_") != std::string::npos;
  way.parked = options.case_name.find("_parked_") != std::string::npos;
  return way;
}

// burst := count:u64 message*count, answered by one byte when the last message has landed
void ServeBursts(End* end, size_t size) {
  std::vector<char> landing(size);
  uint64_t count = 0;
  while (true) {
    end->Receive(&count, sizeof(count), 1);
    end->Receive(landing.data(), size, count);
    end->Send("!", 1, 1);
  }
}

Sample DriveBursts(const Options& options, End* end, size_t size) {
  const std::vector<char> message(size, 'x');
  return MeasureBursts(options, size, [&](uint64_t count) {
    char ack = 0;
    end->Send(&count, sizeof(count), 1);
    end->Send(message.data(), size, count);
    end->Receive(&ack, 1, 1);
  });
}

void Serve(const Options& options) {
  uint16_t port = 0;
  const int listener = ListenOnLoopback(options.port, &port);
  AnnouncePort(port);
  Way way = WayOf(options);
  way.serves = true;
  way.side = AcceptOne(listener);
  if (way.busy) BindApart(true);
  const auto end = make_end(way);
  if (KindOf(options).is_round_trip) {
    end->Echo(way.bytes);
  } else {
    ServeBursts(end.get(), way.bytes);
  }
}

Sample Drive(const Options& options) {
  Way way = WayOf(options);
  way.side = ConnectToLoopback(options.port);
  if (way.busy) BindApart(false);
  // Not destroyed: the shutdown of a peer is not measured, and some peers fail in it.
  End* const end = make_end(way).release();
  if (!KindOf(options).is_round_trip) return DriveBursts(options, end, way.bytes);
  return MeasureRoundTripChain(options, [&](const Again& again) { end->RoundTrips(way.bytes, again); });
}

}  // namespace

void End::Echo(size_t size) {
  std::vector<char> message(size);
  while (true) {
    Receive(message.data(), size, 1);
    Send(message.data(), size, 1);
  }
}

void End::RoundTrips(size_t size, const Again& again) {
  std::vector<char> message(size, 'x');
  do {
    Send(message.data(), size, 1);
    Receive(message.data(), size, 1);
  } while (again());
}

std::string Swap(const Way& way, const std::string& words) {
  auto size = static_cast<uint32_t>(words.size());
  WriteAll(way.side, &size, sizeof(size));
  WriteAll(way.side, words.data(), size);
  if (!ReadAll(way.side, &size, sizeof(size)) || size > 65536) Die("the other process has closed the connection");
  std::string theirs(size, '\0');
  if (!ReadAll(way.side, theirs.data(), size)) Die("the other process has closed the connection during a message");
  return theirs;
}

size_t DepthOf(size_t size) { return std::clamp<size_t>(kAhead / size, 4, kDepthMax); }

int MainOfEnds(int argc, char** argv, const char* variant, const std::vector<std::string>& wires, MakeEnd make) {
  if (argc == 2 && std::string_view(argv[1]) == "wires") {
    for (const std::string& wire : wires) std::printf("%s\n", wire.c_str());
    return 0;
  }
  make_end = make;
  static std::vector<std::string> names;  // referred to by the cases
  for (const std::string& wire : wires) {
    for (const Kind& kind : kKinds) {
      names.push_back(std::string(kind.name) + "_" + wire);
      if (!kind.is_round_trip) continue;
      names.push_back(std::string(kind.name) + "_busy_" + wire);
      names.push_back(std::string(kind.name) + "_parked_" + wire);
    }
  }
  std::vector<Case> cases;
  for (const std::string& name : names) cases.push_back({name.c_str(), Serve, Drive});
  return Main(argc, argv, variant, cases);
}

}  // namespace fusewire::bench
