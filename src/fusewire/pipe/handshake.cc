// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/handshake.h"

#include <algorithm>

#include "fusewire/base/random.h"

namespace fusewire::pipe {
namespace {

Status OtherSecret() {
  return Status::Refused("the peer's shared secret differs from ours").Next("give both tasks the same secret");
}

}  // namespace

Status NoWindow() {
  return Status::Overloaded("the open connections hold all of window_budget_bytes")
      .Phase("greeting")
      .Next("close connections, or raise window_budget_bytes");
}

Status NotOffered(uint16_t service) {
  return Status::Refused("service " + wire::ServiceWords(service) + " is not offered here")
      .Next("check the address: another part of the cluster listens there");
}

Handshake::Handshake(Role role, const Options& options, uint16_t service, std::optional<uint64_t> window_bytes,
                     TakeWindow take_window, GetBinding get_binding)
    : role_(role),
      options_(options),
      has_window_(window_bytes.has_value()),
      take_window_(std::move(take_window)),
      get_binding_(std::move(get_binding)),
      state_(role == Role::kAcceptor  ? State::kWantHello
             : options.secret.empty() ? State::kWantWelcome
                                      : State::kWantChallenge) {
  own_.incarnation = options.incarnation;
  SystemRandom(Bytes(own_.nonce.data(), own_.nonce.size()));
  own_.chunk_bytes = options.limits.chunk_bytes_max;
  own_.window_bytes = window_bytes.value_or(0);
  own_.service = service;
  own_.has_secret = !options.secret.empty();
  own_.cluster = options.cluster;
  own_.name = options.name;
}

const char* Handshake::phase() const {
  switch (state_) {
    case State::kWantHello: return "waiting for the peer's hello";
    case State::kWantChallenge: return "waiting for the peer's challenge";
    case State::kWantProof: return "waiting for the peer's proof";
    case State::kWantWelcome: return "waiting for the peer's welcome";
    case State::kDone: return "greeted";
    case State::kOther: return "handed over";
    case State::kFailed: break;
  }
  return "greeting";
}

std::string Handshake::Begin() {
  FUSEWIRE_CHECK(heard_.empty());
  if (role_ == Role::kAcceptor) return std::string();
  FUSEWIRE_CHECK(state_ == State::kWantChallenge || state_ == State::kWantWelcome);
  FUSEWIRE_CHECK(greetings_.empty());
  greetings_ = wire::EncodeHello(own_);
  return greetings_;
}

Status Handshake::Feed(ConstBytes* in, std::string* out) {
  if (state_ == State::kFailed) return Status::Corrupt("data after a greeting that has failed");
  while (!done() && !is_for_other() && !in->empty()) {
    // A greeting is small: gather it whole, first the prefix, then as much as the prefix says.
    size_t want = wire::kGreetingPrefixBytes;
    wire::GreetingPrefix prefix;
    if (heard_.size() >= wire::kGreetingPrefixBytes) {
      prefix = wire::DecodeGreetingPrefix(ConstBytes(heard_.data(), wire::kGreetingPrefixBytes)).value();
      want += prefix.body_bytes;
    }
    FUSEWIRE_DCHECK(heard_.size() < want);
    size_t take = std::min(in->size, want - heard_.size());
    heard_.append(reinterpret_cast<const char*>(in->data), take);
    *in = in->From(take);
    // A peer of another protocol may send less than a prefix: its first bytes tell.
    bool is_stranger = heard_.size() >= wire::kMagicBytes && !wire::MayBeGreeting(heard_);
    if (heard_.size() < wire::kGreetingPrefixBytes && !is_stranger) continue;
    Result<wire::GreetingPrefix> decoded = wire::DecodeGreetingPrefix(
        ConstBytes(heard_).Sub(0, is_stranger ? wire::kMagicBytes : wire::kGreetingPrefixBytes));
    if (!decoded.ok()) {
      state_ = State::kFailed;
      if (decoded.status().code() == Code::kRefused)
        *out += wire::EncodeRefusal({Code::kRefused, decoded.status().cause()});
      return decoded.status().Phase("reading the peer's greeting");
    }
    prefix = decoded.value();
    if (heard_.size() < wire::kGreetingPrefixBytes + prefix.body_bytes) continue;
    std::string greeting;
    greeting.swap(heard_);
    Status status = OnGreeting(prefix, greeting, out);
    if (status.ok()) continue;
    const char* during = phase();
    state_ = State::kFailed;
    // A peer that has not proved anything learns nothing; an honest one with other settings is told what differs.
    bool is_honest =
        status.code() == Code::kRefused || status.code() == Code::kOverloaded || status.code() == Code::kUnavailable;
    if (is_honest && prefix.kind != wire::GreetingKind::kRefusal)
      *out += wire::EncodeRefusal({status.code(), told_.empty() ? status.cause() : told_});
    return status.Phase(during);
  }
  return Status::Ok();
}

Status Handshake::CutOff(const Status& why) const {
  // A whole prefix has been looked at already.
  return (wire::MayBeGreeting(heard_) ? why : wire::DecodeGreetingPrefix(heard_).status()).Phase(phase());
}

Status Handshake::OnGreeting(const wire::GreetingPrefix& prefix, ConstBytes greeting, std::string* out) {
  using Kind = wire::GreetingKind;
  if (prefix.kind == Kind::kRefusal) {
    const wire::Refusal refusal = FUSEWIRE_TRY(wire::DecodeRefusal(greeting.From(wire::kGreetingPrefixBytes)));
    return Status(refusal.code, "the peer turned us away: " + refusal.why)
        .Next("make the settings of both tasks agree");
  }
  if (state_ == State::kWantHello && prefix.kind == Kind::kHello) return OnHello(greeting, out);
  if (state_ == State::kWantChallenge && prefix.kind == Kind::kChallenge) return OnChallenge(greeting, out);
  if (state_ == State::kWantProof && prefix.kind == Kind::kProof) return OnProof(greeting, out);
  const bool may_be_welcome = state_ == State::kWantWelcome || state_ == State::kWantChallenge;
  if (may_be_welcome && prefix.kind == Kind::kWelcome) return OnWelcome(greeting);
  return Status::Corrupt("greeting kind " + std::to_string(static_cast<int>(prefix.kind)) + " out of order");
}

Status Handshake::CheckPeer(const wire::Hello& peer) {
  if (peer.cluster != own_.cluster) {
    // A peer that does not know our cluster's name must not learn it from us; our log has both names.
    told_ = "cluster \"" + peer.cluster + "\" is not ours";
    return Status::Refused("cluster \"" + peer.cluster + "\" meets cluster \"" + own_.cluster + "\"")
        .Next("give both tasks the same cluster name, or check the address");
  }
  const bool is_nobodys = role_ == Role::kAcceptor && own_.service == kNoService;
  if (peer.service != own_.service || is_nobodys) {
    if (role_ == Role::kAcceptor) return refusal_.ok() ? NotOffered(peer.service) : refusal_;
    return Status::Refused("service " + wire::ServiceWords(peer.service) + " answers where service " +
                           wire::ServiceWords(own_.service) + " is wanted")
        .Next("check the address: another part of the cluster listens there");
  }
  if (peer.has_secret != own_.has_secret) {
    return Status::Refused(peer.has_secret ? "the peer has a shared secret and we have none"
                                           : "the peer has no shared secret and we have one")
        .Next("give both tasks the same secret");
  }
  if (peer.chunk_bytes == 0) return Status::Corrupt("a hello with chunks of 0 bytes");
  return Status::Ok();
}

Status Handshake::OnHello(ConstBytes greeting, std::string* out) {
  FUSEWIRE_CHECK(role_ == Role::kAcceptor);
  wire::Hello hello = FUSEWIRE_TRY(wire::DecodeHello(greeting.From(wire::kGreetingPrefixBytes)));
  const bool is_for_other = leaves_others_ && hello.service != own_.service;
  if (!is_for_other) FUSEWIRE_TRY(CheckPeer(hello));
  peer_ = std::move(hello);
  greetings_ = greeting.ToString();
  if (is_for_other) {
    state_ = State::kOther;
    return Status::Ok();
  }
  if (options_.secret.empty()) return Welcome(out);
  const std::string challenge = wire::EncodeChallenge(own_.nonce);
  greetings_ += challenge;
  *out += challenge;
  state_ = State::kWantProof;
  return Status::Ok();
}

Status Handshake::OnChallenge(ConstBytes greeting, std::string* out) {
  FUSEWIRE_CHECK(role_ == Role::kDialer);
  FUSEWIRE_CHECK(!greetings_.empty());  // it comes in answer to our hello
  FUSEWIRE_TRY(wire::DecodeChallenge(greeting.From(wire::kGreetingPrefixBytes)));
  greetings_ += greeting.ToString();
  const std::string proof = wire::EncodeProof(ProofOf("dialer"));
  greetings_ += proof;
  *out += proof;
  state_ = State::kWantWelcome;
  return Status::Ok();
}

Status Handshake::OnProof(ConstBytes greeting, std::string* out) {
  FUSEWIRE_CHECK(role_ == Role::kAcceptor);
  FUSEWIRE_CHECK(!options_.secret.empty());
  const wire::Proof proof = FUSEWIRE_TRY(wire::DecodeProof(greeting.From(wire::kGreetingPrefixBytes)));
  if (!wire::SameProof(proof, ProofOf("dialer"))) return OtherSecret();
  greetings_ += greeting.ToString();
  return Welcome(out);
}

// The acceptor's last words: the peer belongs to the cluster, as far as that can be proved, and gets its window.
Status Handshake::Welcome(std::string* out) {
  if (take_window_) {
    const std::optional<uint64_t> window_bytes = take_window_();
    has_window_ = window_bytes.has_value();
    own_.window_bytes = window_bytes.value_or(0);
  }
  if (!has_window_) return NoWindow();
  const std::string welcome = wire::EncodeWelcome(own_, nullptr);
  *out += welcome;
  if (!options_.secret.empty()) {
    greetings_ += welcome;
    const wire::Proof proof = ProofOf("acceptor");
    out->append(reinterpret_cast<const char*>(proof.data()), proof.size());
  }
  state_ = State::kDone;
  return Status::Ok();
}

Status Handshake::OnWelcome(ConstBytes greeting) {
  FUSEWIRE_CHECK(role_ == Role::kDialer);
  FUSEWIRE_CHECK(!greetings_.empty());  // it comes in answer to our hello
  const wire::Welcome welcome = FUSEWIRE_TRY(wire::DecodeWelcome(greeting.From(wire::kGreetingPrefixBytes)));
  FUSEWIRE_TRY(CheckPeer(welcome.hello));
  if (state_ == State::kWantChallenge) return Status::Corrupt("a welcome before we have proved anything");
  if (!options_.secret.empty()) {
    greetings_ += greeting.Sub(0, greeting.size - sizeof(wire::Proof)).ToString();
    if (!wire::SameProof(welcome.proof, ProofOf("acceptor"))) return OtherSecret();
  }
  peer_ = welcome.hello;
  state_ = State::kDone;
  return Status::Ok();
}

wire::Proof Handshake::ProofOf(const char* label) {
  return wire::MakeProof(options_.secret, label, greetings_, get_binding_ ? get_binding_() : std::string());
}

}  // namespace fusewire::pipe
