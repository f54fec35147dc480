// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The greeting as a state machine of bytes: no socket, no clock.
// Home: the pipe's. Owns: the greeting so far. Fails: Feed returns why, for good, and appends the answer, if any.
// Without a secret:
//   dialer     sends hello, gets welcome (checks it)                                              -> done
//   acceptor   gets hello (checks it), sends welcome                                              -> done
// With one, the dialer proves itself first: an acceptor sends nothing against which guesses could be tested, and holds
// no memory for a peer that has not proved itself.
//   dialer     sends hello, gets challenge, sends proof, gets welcome with a proof (checks both)  -> done
//   acceptor   gets hello (checks it), sends challenge, gets proof (checks it), sends welcome     -> done
// An acceptor that gets a hello for another service of its task                                   -> for other
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/pipe/options.h"
#include "fusewire/wire/hello.h"

namespace fusewire::pipe {

// Which end of a connection a pipe is at.
enum class Role { kDialer, kAcceptor };

// Of an acceptor that reads a hello for all services of its task. No peer is admitted by this number.
constexpr uint16_t kNoService = 0;

// Why a pipe is refused: there is no window for it; no service has the number that it asks for.
Status NoWindow();
Status NotOffered(uint16_t service);

class Handshake {
 public:
  // The peer's initial window; none: there is no room for another peer, and the acceptor refuses it with this reason.
  using TakeWindow = UniqueFunction<std::optional<uint64_t>()>;
  // See transport::Connection::Binding().
  using GetBinding = UniqueFunction<std::string()>;
  // An acceptor with a `take_window` asks it once the peer's greeting is complete: an unknown client holds nothing.
  Handshake(Role role, const Options& options, uint16_t service, std::optional<uint64_t> window_bytes,
            TakeWindow take_window = nullptr, GetBinding get_binding = nullptr);

  // The first bytes to send; empty for the acceptor.
  std::string Begin();
  // Takes what it needs from the front of `in` and moves `in` behind it; appends the answer to `out`.
  // After an error, `out` may still hold a refusal to be sent before closing.
  Status Feed(ConstBytes* in, std::string* out);
  bool done() const { return state_ == State::kDone; }
  // Before the first Feed, of an acceptor. A hello for another service ends the handshake without an answer: it is
  // for that service to judge.
  void LeaveOthers() {
    FUSEWIRE_CHECK(state_ == State::kWantHello);
    leaves_others_ = true;
  }
  // Likewise: the refusal for an unknown service.
  void RefuseOthers(Status why) { refusal_ = std::move(why); }
  bool is_for_other() const { return state_ == State::kOther; }
  // That hello, as it came; its service is peer().service.
  const std::string& hello_bytes() const { return greetings_; }
  Role role() const { return role_; }
  // Nothing more comes, because of `why`. Returns that with what was awaited; or, if the peer's unfinished greeting is
  // of another protocol, of which.
  Status CutOff(const Status& why) const;
  // The phase that it waits for, as text.
  const char* phase() const;
  // The peer's hello, once done, or for another.
  const wire::Hello& peer() const { return peer_; }

 private:
  enum class State { kWantHello, kWantChallenge, kWantProof, kWantWelcome, kDone, kOther, kFailed };

  Status OnGreeting(const wire::GreetingPrefix& prefix, ConstBytes greeting, std::string* out);
  Status OnHello(ConstBytes greeting, std::string* out);
  Status OnChallenge(ConstBytes greeting, std::string* out);
  Status OnProof(ConstBytes greeting, std::string* out);
  Status OnWelcome(ConstBytes greeting);
  Status CheckPeer(const wire::Hello& peer);
  Status Welcome(std::string* out);
  wire::Proof ProofOf(const char* label);

  const Role role_;
  const Options& options_;
  bool has_window_;
  TakeWindow take_window_;
  GetBinding get_binding_;
  bool leaves_others_ = false;
  Status refusal_;
  State state_;
  wire::Hello own_;
  wire::Hello peer_;
  std::string told_;       // to a peer that we refuse, if not all that our log says
  std::string heard_;      // of the greeting that is coming in
  std::string greetings_;  // the complete ones, sent and received, for the proofs; of a welcome, without its proof
};

}  // namespace fusewire::pipe
