// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/status.h"

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace fusewire {
namespace {

const std::string& Empty() {
  static const std::string* const empty = new std::string;  // never destroyed: a Status may outlive main
  return *empty;
}

}  // namespace

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalid: return "invalid";
    case Code::kUnavailable: return "unavailable";
    case Code::kOverloaded: return "overloaded";
    case Code::kTimeout: return "timeout";
    case Code::kCancelled: return "cancelled";
    case Code::kCorrupt: return "corrupt";
    case Code::kRefused: return "refused";
    case Code::kApplication: return "application";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

Status::Status(Code code, std::string cause) {
  if (code == Code::kOk) return;
  auto rep = std::make_shared<Rep>();
  rep->code = code;
  rep->cause = std::move(cause);
  rep_ = std::move(rep);
}

Status Status::Application(uint32_t app_code, std::string cause) {
  return Status(Code::kApplication, std::move(cause)).With([app_code](Rep* rep) { rep->app_code = app_code; });
}

Status Status::FromErrno(Code code, const char* call, int error) {
  return Status(code, std::string(call) + ": " + std::generic_category().message(error)).With([error](Rep* rep) {
    rep->system_error = error;
  });
}

const std::string& Status::cause() const { return rep_ == nullptr ? Empty() : rep_->cause; }
const std::string& Status::peer() const { return rep_ == nullptr ? Empty() : rep_->peer; }
const std::string& Status::phase() const { return rep_ == nullptr ? Empty() : rep_->phase; }
const std::string& Status::next() const { return rep_ == nullptr ? Empty() : rep_->next; }

template <class Set>
Status Status::With(Set set) const {
  if (rep_ == nullptr) return *this;
  auto rep = std::make_shared<Rep>(*rep_);
  set(rep.get());
  Status copy;
  copy.rep_ = std::move(rep);
  return copy;
}

Status Status::Peer(std::string who) const {
  return With([&who](Rep* rep) {
    if (rep->peer.empty()) rep->peer = std::move(who);
  });
}

Status Status::Phase(std::string what) const {
  return With([&what](Rep* rep) {
    if (rep->phase.empty()) rep->phase = std::move(what);
  });
}

Status Status::Next(std::string hint) const {
  return With([&hint](Rep* rep) {
    if (rep->next.empty()) rep->next = std::move(hint);
  });
}

Status Status::AgeMs(int64_t age_ms) const {
  return With([age_ms](Rep* rep) {
    if (rep->age_ms < 0) rep->age_ms = age_ms;
  });
}

Status Status::AgeMsAtLeast(int64_t age_ms) const {
  return With([age_ms](Rep* rep) { rep->age_ms = std::max(rep->age_ms, age_ms); });
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text = CodeName(code());
  if (rep_->app_code != 0) text += " " + std::to_string(rep_->app_code);
  text += ": " + rep_->cause;
  if (!rep_->peer.empty()) text += ", peer " + rep_->peer;
  if (!rep_->phase.empty()) text += ", while " + rep_->phase;
  if (rep_->age_ms >= 0) {
    char age[48];
    std::snprintf(age, sizeof(age), ", since %.1f s", static_cast<double>(rep_->age_ms) / 1000.0);
    text += age;
  }
  if (!rep_->next.empty()) text += "; next: " + rep_->next;
  return text;
}

std::string Status::Explained() const {
  return ok() ? "ok" : ToString() + "; see: fusewire explain errors#" + CodeName(code());
}

}  // namespace fusewire
