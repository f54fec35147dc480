// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Two processes exchange messages and tensors over the wire; the same work on raw sockets stands beside it. Then one is
// killed, and the other goes on when it is back.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/reactor/completion.h"
#include "fusewire/rpc/rpc.h"
#include "peer.h"
#include "tour.h"

namespace fusewire::demo {
namespace {

constexpr size_t kTensorBytes = 4 << 20;

int Fail(const Status& status) {
  std::fprintf(stderr, "demo: %s\n", status.ToString().c_str());
  return 1;
}

double Micros(int64_t ns) { return static_cast<double>(ns) / 1000.0; }

// kill -9 with a call under way, a restart at the same port, and the next call.
Status ShowFailure(rpc::Client& client, ChildProcess* peer) {
  uint16_t port = peer->port();
  class Pending final : public rpc::Call {
   public:
    using Call::Call;
    reactor::Completion ended;
    void OnDone(Status status) override { ended.Done(std::move(status)); }
  };
  std::vector<uint8_t> tensor(256 << 20, 1);
  Pending pending(kTake);
  pending.body.push_back(Buffer::Wrap(Bytes(tensor.data(), tensor.size()), nullptr, nullptr));
  client.Start(&pending);
  client.Ask(kEcho, std::string("are you there?"), Buffers(), kSecondNs);
  int64_t killed_ns = Clock::Real()->NowNs();
  peer->Kill();
  if (!pending.ended.Wait(client.home(), AddNs(killed_ns, 10 * kSecondNs)))
    return Status::Internal("no error within 10 s of a kill");
  std::printf("  kill -9 of the server in the middle of a 256 MiB tensor: told after %.0f us\n    %s\n",
              Micros(Clock::Real()->NowNs() - killed_ns), pending.ended.status().ToString().c_str());
  Result<ChildProcess> again = ChildProcess::Start("fusewire", port);
  if (!again.ok()) return again.status();
  *peer = std::move(again).value();
  rpc::Client::Answer answer = client.Ask(kEcho, std::string("are you back?"), Buffers(), 10 * kSecondNs);
  if (!answer.status.ok()) return answer.status;
  std::printf("  restarted at the same port: the next call was answered %.0f us after the kill\n",
              Micros(Clock::Real()->NowNs() - killed_ns));
  return Status::Ok();
}

// The work of a child process, until it is killed.
int Serve(const std::string& what, int port) {
  bool is_raw = what == "raw";
  (is_raw ? ServeRaw : ServeFusewire)(static_cast<uint16_t>(port), ChildProcess::Ready);
  return 1;
}

int Run(double seconds) {
  Result<ChildProcess> peer = ChildProcess::Start("fusewire");
  if (!peer.ok()) return Fail(peer.status());
  Result<ChildProcess> raw_peer = ChildProcess::Start("raw");
  if (!raw_peer.ok()) return Fail(raw_peer.status());
  Result<RawClient> raw = RawClient::Connect(raw_peer.value().port());
  if (!raw.ok()) return Fail(raw.status());

  task::TaskOptions options;
  options.pipe.cluster = "demo";
  options.pipe.name = "worker:0";
  options.wire = task::TransportChoice::kTcp;  // as the raw sockets beside it
  options.pool.reactors = 1;
  auto task = task::Task::Start(std::move(options));
  if (!task.ok()) return Fail(task.status());
  rpc::Client client(*task.value(), transport::Address{"127.0.0.1", peer.value().port()});

  std::printf("Fusewire: worker:0 (this process) and ps:0 (process %d) over TCP on this machine\n\n",
              static_cast<int>(peer.value().pid()));
  std::vector<Row> rows;
  auto trips = Alternate(
      "messages: 64 B there and back", seconds,
      [](const Count& count) { return Rate(count.per_second(), " round trips/s"); },
      [&](double turn) { return RoundTrips(client, turn); },
      [&](double turn) { return RawExchanges(raw.value(), 64, 64, turn); });
  rows.push_back({"64 B round trip", demo::Micros(1 / trips.ours.per_second()),
                  demo::Micros(1 / trips.raw.per_second()), Times(trips.ours.per_second() / trips.raw.per_second())});
  auto calls = Alternate(
      "messages: 100 B calls, 64 in flight", seconds,
      [](const Count& count) { return Rate(count.per_second(), " calls/s"); },
      [&](double turn) { return CallsInFlight(client, turn); },
      [&](double turn) { return RawExchanges(raw.value(), 100, 100, turn); });
  rows.push_back({"100 B calls (raw: one at a time)", Rate(calls.ours.per_second(), "/s"),
                  Rate(calls.raw.per_second(), "/s"), Times(calls.ours.per_second() / calls.raw.per_second())});
  auto pushes = Alternate(
      "tensors: 4 MiB pushed", seconds,
      [](const Count& count) { return Rate(count.per_second() * kTensorBytes, "B/s"); },
      [&](double turn) { return PushTensors(client, turn); },
      [&](double turn) { return RawExchanges(raw.value(), kTensorBytes, 0, turn); });
  rows.push_back({"4 MiB tensors, one way", Rate(pushes.ours.per_second() * kTensorBytes, "B/s"),
                  Rate(pushes.raw.per_second() * kTensorBytes, "B/s"),
                  Times(pushes.ours.per_second() / pushes.raw.per_second())});
  size_t step_bytes = AllTensorBytes();
  auto pulls = Alternate(
      "tensors: 200 parameters pulled", seconds,
      [](const Count& count) { return Rate(count.per_second() * kTensors, " tensors/s"); },
      [&](double turn) { return PullParameters(client, turn); },
      [&](double turn) { return RawExchanges(raw.value(), 0, step_bytes, turn); });
  rows.push_back({"200 tensors of 1 to 100 KB in one reply", Rate(pulls.ours.per_second() * kTensors, "/s"),
                  Rate(pulls.raw.per_second() * kTensors, "/s"),
                  Times(pulls.ours.per_second() / pulls.raw.per_second())});
  for (const Pair* pair : {&trips, &calls, &pushes, &pulls}) {
    if (!pair->ours.status.ok()) return Fail(pair->ours.status);
    if (!pair->raw.status.ok()) return Fail(pair->raw.status);
  }
  PrintTable(rows);
  Status failure = ShowFailure(client, &peer.value());
  if (!failure.ok()) return Fail(failure);
  std::printf("\n  every tensor arrived in its final memory; copies of payload of 16 KiB or more: %llu\n",
              static_cast<unsigned long long>(ReadCopyCounts().large_copies));
  std::printf(
      "  the ratio is ours to the raw blocking socket's in the same run; more than 1 means that ours is better\n");
  return 0;
}

}  // namespace
}  // namespace fusewire::demo

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--serve") == 0) return fusewire::demo::Serve(argv[2], std::atoi(argv[3]));
  double seconds = 1.5;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else {
      std::printf("usage: fusewire_demo [--seconds S]    S: seconds for each part, by default 1.5\n");
      return std::strcmp(argv[i], "--help") == 0 ? 0 : 2;
    }
  }
  if (seconds <= 0) seconds = 1.5;
  return fusewire::demo::Run(seconds);
}
