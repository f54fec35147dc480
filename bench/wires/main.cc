// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Our transports alone, without messages and calls, and the limits of the machine.
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/harness.h"
#include "bench/wires/bare.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transports.h"

namespace fusewire::bench {
namespace {

using transport::Connection;

std::unique_ptr<reactor::Reactor> StartReactor(const Options& options) {
  reactor::Options settings;
  settings.busy_poll = options.case_name.find("busy") != std::string::npos;
  if (settings.busy_poll) BindApart(options.server_pid == 0);
  if (!settings.busy_poll) settings.spin_ns_max = 0;  // parked: measures going to sleep and waking up
  auto reactor = reactor::Reactor::Start(settings);
  if (!reactor.ok()) Die(reactor.status().ToString());
  return std::move(reactor).value();
}

std::unique_ptr<transport::Transport> MakeWire(const Options& options) {
  if (options.case_name.ends_with("_shm")) return transport::MakeShm();
  if (options.case_name.ends_with("_ucx")) return transport::MakeUcx(transport::MakeTcp({}), {});
  return transport::MakeTcp({});
}

// One end: lands input in `landing`, reports it, and writes one thing at a time.
class End final : public transport::ConnectionHandler {
 public:
  using OnHeard = std::function<void(size_t bytes)>;
  End(std::unique_ptr<Connection> connection, bool serves, size_t landing_bytes, OnHeard on_heard)
      : serves_(serves), landing_(landing_bytes), on_heard_(std::move(on_heard)), connection_(std::move(connection)) {
    connection_->Start(this);
  }
  // At home.
  void Write(const void* data, size_t size, std::function<void()> written = nullptr) {
    left_ = ConstBytes(data, size);
    written_ = std::move(written);
    answered_ = true;
    if (!writing_) WriteLeft();
  }

 private:
  size_t Landing(Bytes* parts, size_t) override {
    *parts = Bytes(landing_.data(), landing_.size());
    return 1;
  }
  size_t LookAhead() override { return 0; }
  void OnLanded(size_t bytes) override { on_heard_(bytes); }
  void OnBytes(ConstBytes) override { Die("bytes beyond the landing"); }
  void OnWritten(size_t bytes) override {
    left_ = left_.From(bytes);
    answered_ = true;
    if (left_.empty() && written_) {
      const auto written = std::exchange(written_, nullptr);
      written();
    }
    if (!writing_) WriteLeft();
  }
  // A loop: an immediate answer must not start the next write recursively.
  void WriteLeft() {
    writing_ = true;
    while (answered_ && !left_.empty()) {
      answered_ = false;
      connection_->Write(&left_, 1);
    }
    writing_ = false;
  }
  void OnClosed(Status why) override {
    if (serves_) std::_Exit(0);  // the client has what it wants
    Die(why.ToString());
  }

  const bool serves_;
  std::vector<char> landing_;
  const OnHeard on_heard_;
  ConstBytes left_;
  bool answered_ = true;  // the last write; or there was none
  bool writing_ = false;  // inside of WriteLeft
  std::function<void()> written_;
  const std::unique_ptr<Connection> connection_;
};

// Serves one connection forever.
void Serve(const Options& options, size_t landing_bytes,
           const std::function<void(std::unique_ptr<End>& end, size_t bytes)>& on_heard) {
  const auto reactor = StartReactor(options);
  const auto wire = MakeWire(options);
  std::unique_ptr<transport::Listener> listener;
  std::unique_ptr<End> end;
  reactor->Run([&] {
    auto listening = wire->Listen(*reactor, {"127.0.0.1", 0}, [&](std::unique_ptr<transport::Incoming> incoming) {
      auto connection = incoming->Adopt(*reactor);
      if (!connection.ok()) Die(connection.status().ToString());
      end = std::make_unique<End>(std::move(connection).value(), true, landing_bytes,
                                  [&](size_t bytes) { on_heard(end, bytes); });
    });
    if (!listening.ok()) Die(listening.status().ToString());
    listener = std::move(listening).value();
  });
  AnnouncePort(listener->address().port);
  while (true) pause();
}

// The client's end and its reactor; the caller waits for events there.
class Caller {
 public:
  Caller(const Options& options, size_t landing_bytes) : reactor_(StartReactor(options)), wire_(MakeWire(options)) {
    AtHomeUntilDone([&] {
      dialing_ = wire_->Dial(*reactor_, {"127.0.0.1", options.port}, 5 * kSecondNs, [this, landing_bytes](auto made) {
        if (!made.ok()) Die(made.status().ToString());
        end_ = std::make_unique<End>(std::move(made).value(), false, landing_bytes,
                                     [this](size_t bytes) { heard_(bytes); });
        Done();
      });
    });
  }
  ~Caller() {
    reactor_->Run([this] {
      dialing_.reset();
      end_.reset();
    });
  }
  End& end() { return *end_; }
  void SetHeard(End::OnHeard heard) { heard_ = std::move(heard); }
  // Returns when Done() has been called at home.
  void AtHomeUntilDone(const std::function<void()>& begin) {
    done_ = false;
    reactor_->Post([&begin] { begin(); });
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }
  void Done() {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  End::OnHeard heard_;
  const std::unique_ptr<reactor::Reactor> reactor_;
  const std::unique_ptr<transport::Transport> wire_;
  std::unique_ptr<transport::Dialing> dialing_;
  std::unique_ptr<End> end_;
};

// --- rtt: round trips of 64 B, one at a time ---

void ServeEcho(const Options& options) {
  static const std::array<char, kSmallBytes> message{};
  size_t heard = 0;
  Serve(options, kSmallBytes, [&heard](std::unique_ptr<End>& end, size_t bytes) {
    heard += bytes;
    if (heard % kSmallBytes == 0) end->Write(message.data(), message.size());
  });
}

Sample DriveEcho(const Options& options) {
  static const std::array<char, kSmallBytes> message{};
  Caller caller(options, kSmallBytes);
  return MeasureRoundTripChain(options, [&](const Again& again) {
    size_t heard = 0;
    caller.AtHomeUntilDone([&] {
      caller.SetHeard([&](size_t bytes) {
        heard += bytes;
        if (heard % kSmallBytes != 0) return;
        if (again()) {
          caller.end().Write(message.data(), message.size());
        } else {
          caller.Done();
        }
      });
      caller.end().Write(message.data(), message.size());
    });
  });
}

// --- bulk: messages one way, each answered by one byte when it has landed; the next one does not wait for that ---

void ServeBulk(const Options& options) {
  const size_t message_bytes = BytesOfCase(options);
  // Answers that became due during a write are sent with the next one.
  static const std::vector<char> answers(4096, '!');
  size_t heard = 0;
  Serve(options, message_bytes, [&heard, message_bytes](std::unique_ptr<End>& end, size_t bytes) {
    heard += bytes;
    if (heard < message_bytes) return;
    heard -= message_bytes;
    end->Write(answers.data(), 1);
  });
}

Sample DriveBulk(const Options& options) {
  const size_t message_bytes = BytesOfCase(options);
  const std::vector<char> message(message_bytes, 'x');
  Caller caller(options, 4096);
  return MeasureBursts(options, message_bytes, [&](uint64_t count) {
    uint64_t sent = 0, answered = 0;
    // A writer may be notified of its last bytes after their reader.
    const auto done = [&] {
      if (answered == count && sent > count) caller.Done();
    };
    std::function<void()> next = [&] {
      if (sent++ < count) {
        caller.end().Write(message.data(), message.size(), next);
      } else {
        done();
      }
    };
    caller.AtHomeUntilDone([&] {
      caller.SetHeard([&](size_t answers) {
        answered += answers;
        done();
      });
      next();
    });
  });
}

const std::vector<Case> kCases = {
    {"rtt_64B_shm", ServeEcho, DriveEcho},           {"rtt_64B_tcp", ServeEcho, DriveEcho},
    {"rtt_64B_eventfd", ServeEventfd, DriveEventfd}, {"rtt_64B_busy_shm", ServeEcho, DriveEcho},
    {"rtt_64B_ucx", ServeEcho, DriveEcho},           {"rtt_64B_busy_ucx", ServeEcho, DriveEcho},
    {"bulk_1MiB_ucx", ServeBulk, DriveBulk},         {"bulk_16MiB_ucx", ServeBulk, DriveBulk},
    {"rtt_64B_busy_tcp", ServeEcho, DriveEcho},      {"rtt_64B_busy_rings", ServeRings, DriveRings},
    {"bulk_1MiB_shm", ServeBulk, DriveBulk},         {"bulk_1MiB_tcp", ServeBulk, DriveBulk},
    {"bulk_1MiB_readv", ServeReadv, DriveReadv},     {"bulk_16MiB_shm", ServeBulk, DriveBulk},
    {"bulk_16MiB_tcp", ServeBulk, DriveBulk},        {"bulk_16MiB_readv", ServeReadv, DriveReadv},
};

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) { return fusewire::bench::Main(argc, argv, "wires", fusewire::bench::kCases); }
