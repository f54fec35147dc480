// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/handshake.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/random.h"

namespace fusewire {
namespace pipe {

Status NoWindow() {
  return Status::Overloaded("so many connections are open that none of window_budget_bytes is left for another")
      .Phase("greeting")
      .Next("close connections, or raise window_budget_bytes");
}

Status NotOffered(uint16_t service) {
  return Status::Refused("service " + wire::ServiceWords(service) + " is not offered here")
      .Next("check the address: another part of the cluster listens there");
}

Handshake::Handshake(Role role, const Options& options, uint16_t service, std::optional<uint64_t> window_bytes,
                     TakeWindow take_window)
    : role_(role),
      options_(options),
      has_window_(window_bytes.has_value()),
      take_window_(std::move(take_window)),
      state_(role == Role::kDialer ? State::kWantWelcome : State::kWantHello) {
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
    case State::kWantWelcome: return "waiting for the peer's welcome";
    case State::kWantProof: return "waiting for the peer's proof";
    case State::kDone: return "greeted";
    case State::kOther: return "handed over";
    case State::kFailed: break;
  }
  return "greeting";
}

std::string Handshake::Begin() {
  if (role_ == Role::kAcceptor) return std::string();
  hello_bytes_ = wire::EncodeHello(own_);
  return hello_bytes_;
}

Status Handshake::Feed(ConstBytes* in, std::string* out) {
  if (state_ == State::kFailed) return Status::Corrupt("more words behind a greeting that has failed");
  while (!done() && !is_for_other() && !in->empty()) {
    // A greeting is small: gather it whole, first the prefix, then as much as the prefix says.
    size_t want = wire::kGreetingPrefixBytes;
    wire::GreetingPrefix prefix;
    if (heard_.size() >= wire::kGreetingPrefixBytes) {
      prefix = wire::DecodeGreetingPrefix(ConstBytes(heard_.data(), wire::kGreetingPrefixBytes)).value();
      want += prefix.body_bytes;
    }
    size_t take = std::min(in->size, want - heard_.size());
    heard_.append(reinterpret_cast<const char*>(in->data), take);
    *in = in->From(take);
    // A stranger may say no more than a line.
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
    Status status = OnGreeting(prefix, ConstBytes(greeting).From(wire::kGreetingPrefixBytes), out);
    if (status.ok() && (state_ == State::kWantProof || is_for_other())) hello_bytes_ = greeting;
    if (status.ok()) continue;
    const char* during = phase();
    state_ = State::kFailed;
    // A liar learns nothing; an honest peer with other settings is told what differs.
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

Status Handshake::OnGreeting(const wire::GreetingPrefix& prefix, ConstBytes body, std::string* out) {
  if (prefix.kind == wire::GreetingKind::kRefusal) {
    Result<wire::Refusal> refusal = wire::DecodeRefusal(body);
    if (!refusal.ok()) return refusal.status();
    return Status(refusal.value().code, "the peer turned us away: " + refusal.value().why)
        .Next("make the settings of both tasks agree");
  }
  if (state_ == State::kWantHello && prefix.kind == wire::GreetingKind::kHello) return OnHello(body, out);
  if (state_ == State::kWantWelcome && prefix.kind == wire::GreetingKind::kWelcome) return OnWelcome(body, out);
  if (state_ == State::kWantProof && prefix.kind == wire::GreetingKind::kProof) return OnProof(body);
  return Status::Corrupt("greeting kind " + std::to_string(static_cast<int>(prefix.kind)) + " out of order");
}

Status Handshake::CheckPeer(const wire::Hello& peer) {
  if (peer.cluster != own_.cluster) {
    // Where there is a secret, who has not shown that he knows it does not learn our name either.
    if (own_.has_secret) told_ = "cluster \"" + peer.cluster + "\" is not ours";
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

Status Handshake::OnHello(ConstBytes body, std::string* out) {
  Result<wire::Hello> hello = wire::DecodeHello(body);
  if (!hello.ok()) return hello.status();
  if (leaves_others_ && hello.value().service != own_.service) {
    peer_ = std::move(hello).value();
    state_ = State::kOther;
    return Status::Ok();
  }
  FUSEWIRE_TRY(CheckPeer(hello.value()));
  if (take_window_) {
    const std::optional<uint64_t> window_bytes = take_window_();
    has_window_ = window_bytes.has_value();
    own_.window_bytes = window_bytes.value_or(0);
  }
  if (!has_window_) return NoWindow();
  peer_ = std::move(hello).value();
  if (options_.secret.empty()) {
    *out += wire::EncodeWelcome(own_, nullptr);
    state_ = State::kDone;
    return Status::Ok();
  }
  std::string greeting(reinterpret_cast<const char*>(body.data) - wire::kGreetingPrefixBytes,
                       body.size + wire::kGreetingPrefixBytes);
  // The proof covers the welcome without itself: encode once with any proof to know those bytes.
  wire::Proof proof{};
  std::string welcome = wire::EncodeWelcome(own_, &proof);
  welcome_bytes_ = welcome.substr(0, welcome.size() - proof.size());
  proof = wire::MakeProof(options_.secret, "acceptor", greeting, welcome_bytes_);
  *out += wire::EncodeWelcome(own_, &proof);
  state_ = State::kWantProof;
  return Status::Ok();
}

Status Handshake::OnWelcome(ConstBytes body, std::string* out) {
  Result<wire::Welcome> welcome = wire::DecodeWelcome(body);
  if (!welcome.ok()) return welcome.status();
  FUSEWIRE_TRY(CheckPeer(welcome.value().hello));
  peer_ = welcome.value().hello;
  if (!options_.secret.empty()) {
    if (!welcome.value().has_proof) return Status::Corrupt("a welcome without the proof that it announces");
    ConstBytes unproven(body.data - wire::kGreetingPrefixBytes,
                        body.size + wire::kGreetingPrefixBytes - sizeof(wire::Proof));
    if (!wire::SameProof(welcome.value().proof, wire::MakeProof(options_.secret, "acceptor", hello_bytes_, unproven))) {
      return Status::Refused("the peer's shared secret is another one than ours")
          .Next("give both tasks the same secret");
    }
    *out += wire::EncodeProof(wire::MakeProof(options_.secret, "dialer", hello_bytes_, unproven));
  }
  state_ = State::kDone;
  return Status::Ok();
}

Status Handshake::OnProof(ConstBytes body) {
  Result<wire::Proof> proof = wire::DecodeProof(body);
  if (!proof.ok()) return proof.status();
  if (!wire::SameProof(proof.value(), wire::MakeProof(options_.secret, "dialer", hello_bytes_, welcome_bytes_))) {
    return Status::Refused("the peer's shared secret is another one than ours").Next("give both tasks the same secret");
  }
  state_ = State::kDone;
  return Status::Ok();
}

}  // namespace pipe
}  // namespace fusewire
