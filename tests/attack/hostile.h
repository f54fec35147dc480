// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Hostile peers, over any wire and with or without TLS: a Stranger sends any bytes; a Liar greets as a member of the
// cluster, and then sends any frame.
// Home: any thread but a reactor. Owns: its connection. Fails: `closed()` is true once the other side has ended it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "faults.h"
#include "fusewire/pipe/handshake.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/task/task.h"
#include "fusewire/task/wires_test.h"
#include "fusewire/transport/tls/certificates_test.h"
#include "fusewire/transport/tls/library.h"
#include "fusewire/wire/hello.h"
#include "fusewire/wire/wire.h"
#include "lying_wire.h"

namespace fusewire::attack {

constexpr char kSecret[] = "open-sesame-open-wide";

// Between attacker and victim.
struct Way {
  task::TestedWire wire;
  bool tls = false;
};

inline void PrintTo(const Way& way, std::ostream* out) { *out << way.wire.name << (way.tls ? "Tls" : ""); }

// A suite that runs over every wire by itself, and over TLS where a wire has it.
class OverWays : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam().tls && FUSEWIRE_HAS_TLS == 0) GTEST_SKIP() << "this build has no TLS";
    const Status possible = task::PrepareWire(GetParam().wire);
    if (!possible.ok()) GTEST_SKIP() << possible.ToString();
    if (GetParam().tls) certificates_ = std::make_unique<transport::Certificates>();
  }
  // Of the cluster "prod", with the secret and a certificate: a victim, or a member that lies.
  task::TaskOptions OptionsOf(const std::string& name) const {
    task::TaskOptions options;
    options.pipe.cluster = "prod";
    options.pipe.name = name;
    options.pipe.secret = kSecret;
    options.wire = GetParam().wire.wire;
    if (certificates_ != nullptr) options.protection.tls = certificates_->Options();
    return options;
  }
  // The same for a PeerProcess.
  std::string PeerArguments(const std::string& name) const {
    return "name=" + name + " cluster=prod secret=" + kSecret + " wire=" + GetParam().wire.says +
           (certificates_ == nullptr ? std::string() : " tls=" + certificates_->folder());
  }
  static std::unique_ptr<task::Task> Start(task::TaskOptions options) {
    auto task = task::Task::Start(std::move(options));
    FUSEWIRE_CHECK(task.ok());
    return std::move(task).value();
  }

 private:
  std::unique_ptr<transport::Certificates> certificates_;
};

inline std::vector<Way> AllWays() {
  std::vector<Way> ways;
  for (const task::TestedWire& wire : task::kTestedWires) {
    ways.push_back({wire, false});
    if (wire.wire == task::TransportChoice::kTcp) ways.push_back({wire, true});
  }
  return ways;
}

inline std::string NameOfWay(const testing::TestParamInfo<Way>& way) { return testing::PrintToString(way.param); }

// A connection of `from`, over its transport, on which nothing has been said yet.
using Stranger = faults::LyingWire;

// A frame that is encoded correctly, whatever it says.
struct Lie {
  wire::FrameKind kind = wire::FrameKind::kMessage;
  uint64_t call = 0;
  uint16_t method = 0;
  uint32_t aux = 0;
  std::string meta, body;
  uint64_t body_bytes = 0;  // announced, if more than `body` has
  uint16_t segments = 0;    // announced, if not one
};

class Liar {
 public:
  // A task with `options` connects to `service` of the task at `to`. All references outlive it.
  Liar(task::Task& from, const transport::Address& to, const pipe::Options& options, uint16_t service)
      : wire_(from, to), handshake_(pipe::Role::kDialer, options, service, options.window_bytes, nullptr, [this] {
          return wire_.Binding();
        }) {}

  // True: it is a member now.
  testing::AssertionResult Greet(int64_t limit_ns = faults::kPatienceNs) {
    wire_.Send(handshake_.Begin());
    Status failed;
    const bool ended = faults::Eventually(
        [&] {
          const std::string heard = wire_.heard();
          ConstBytes in = ConstBytes(heard).From(heard_bytes_);
          std::string answer;
          failed = handshake_.Feed(&in, &answer);
          heard_bytes_ = heard.size() - in.size;
          if (!answer.empty()) wire_.Send(answer);
          return !failed.ok() || handshake_.done() || wire_.closed();
        },
        limit_ns);
    if (!failed.ok()) return testing::AssertionFailure() << failed.ToString();
    if (!ended) return testing::AssertionFailure() << "no answer: " << handshake_.phase();
    return handshake_.done() ? testing::AssertionSuccess() : testing::AssertionFailure() << "the connection ended";
  }

  void Send(const Lie& lie) { Send(std::initializer_list<Lie>{lie}); }
  // At once, with the sequence numbers that follow.
  void Send(std::initializer_list<Lie> lies) {
    std::string bytes;
    for (const Lie& lie : lies) bytes += Encode(lie);
    wire_.Send(bytes);
  }
  void SendBytes(const std::string& bytes) { wire_.Send(bytes); }
  std::string Encode(const Lie& lie) {
    wire::FrameHeader header;
    header.kind = lie.kind;
    header.call = lie.call;
    header.method = lie.method;
    header.aux = lie.aux;
    header.sequence = sequence_++;
    header.body_bytes = std::max<uint64_t>(lie.body_bytes, lie.body.size());
    const bool has_segments = lie.kind != wire::FrameKind::kChunk && header.body_bytes > 0;
    header.segments = lie.segments != 0 ? lie.segments : has_segments ? 1 : 0;
    header.meta_bytes = static_cast<uint32_t>(lie.meta.size());
    std::string frame(wire::kHeaderBytes, '\0');
    wire::EncodeHeader(header, lie.meta, Bytes(frame.data(), frame.size()));
    return frame + lie.meta + lie.body;
  }

  // The hello of the other side, once greeted: its window_bytes is our first credit.
  const wire::Hello& peer() const { return handshake_.peer(); }
  // The bytes behind the greeting, of up to 1 MiB.
  std::string heard() { return wire_.heard().substr(heard_bytes_); }
  bool closed() { return wire_.closed(); }
  // The words of the other side's goodbye, once they have come.
  std::optional<std::string> goodbye() {
    const size_t at = wire_.GoodbyeAt();
    const std::string heard = wire_.heard();
    if (at == std::string::npos || heard.size() < at + wire::kHeaderBytes) return std::nullopt;
    const auto header = wire::DecodeHeader(ConstBytes(heard).Sub(at, wire::kHeaderBytes), {});
    if (!header.ok() || heard.size() < at + wire::kHeaderBytes + header.value().meta_bytes) return std::nullopt;
    return heard.substr(at + wire::kHeaderBytes, header.value().meta_bytes);
  }

 private:
  faults::LyingWire wire_;
  pipe::Handshake handshake_;
  size_t heard_bytes_ = 0;
  uint32_t sequence_ = 0;
};

}  // namespace fusewire::attack

#define FUSEWIRE_OVER_WAYS(suite) \
  INSTANTIATE_TEST_SUITE_P(Over, suite, testing::ValuesIn(::fusewire::attack::AllWays()), ::fusewire::attack::NameOfWay)
