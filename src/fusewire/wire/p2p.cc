// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/p2p.h"

#include <string>

#include "fusewire/wire/coder.h"

namespace fusewire::wire {
namespace {

enum class Call { kNone, kCount, kMine, kYours };
enum class Behind { kNothing, kHead, kHeadAndPayload, kPayload, kStatus, kStatusOrPayload };

struct Rule {
  const char* name;
  size_t numbers;
  Call call;
  Behind behind;
  uint32_t aux_max;
  bool body;
};

constexpr uint32_t kEagerAuxMax = kP2pConfirmEager | kP2pHeadBytesMax;

// By verb.
constexpr Rule kVerbRules[kP2pVerbMax + 1] = {
    {"", 0, Call::kNone, Behind::kNothing, 0, false},
    {"open", 5, Call::kNone, Behind::kNothing, UINT32_MAX, false},
    {"use", 0, Call::kCount, Behind::kNothing, 0, false},
    {"eager", 2, Call::kMine, Behind::kHeadAndPayload, kEagerAuxMax, true},
    {"offer", 3, Call::kMine, Behind::kHead, kP2pHeadBytesMax, true},
    {"request", 1, Call::kYours, Behind::kNothing, kP2pWaited, false},
    {"data", 1, Call::kYours, Behind::kNothing, 0, true},
    {"result", 0, Call::kYours, Behind::kStatus, kCodeMax, false},
    {"withdraw", 1, Call::kMine, Behind::kNothing, 0, false},
    {"posted", 3, Call::kMine, Behind::kNothing, 0, false},
    {"credit", 0, Call::kCount, Behind::kNothing, 0, false},
    {"put", 4, Call::kMine, Behind::kPayload, kP2pConfirmPut, true},
    {"get", 3, Call::kMine, Behind::kNothing, 0, false},
    {"got", 0, Call::kYours, Behind::kStatusOrPayload, kCodeMax, true},
};

Status Over(const Rule& rule, const char* field, uint64_t value, uint64_t limit) {
  return Status::Corrupt(std::string(rule.name) + ": " + field + " " + std::to_string(value) + ", limit " +
                         std::to_string(limit));
}

bool CallFits(Call call, uint64_t value) {
  bool mine = (value & kP2pMine) != 0;
  switch (call) {
    case Call::kNone: return value == 0;
    case Call::kMine: return mine && value != kP2pMine;
    case Call::kCount:
    case Call::kYours: return !mine && value != 0;
  }
  return false;
}

}  // namespace

const char* P2pVerbName(P2pVerb verb) { return kVerbRules[static_cast<uint16_t>(verb)].name; }

size_t P2pNumbers(P2pVerb verb) { return kVerbRules[static_cast<uint16_t>(verb)].numbers; }

size_t EncodeP2p(P2pVerb verb, const uint64_t* numbers, Bytes out) {
  size_t count = P2pNumbers(verb);
  FUSEWIRE_CHECK(out.size >= count * sizeof(uint64_t));
  for (size_t i = 0; i < count; ++i) Store(out.data + i * sizeof(uint64_t), numbers[i]);
  return count * sizeof(uint64_t);
}

Result<P2pMessage> DecodeP2p(const FrameHeader& header, ConstBytes meta) {
  if (header.kind != FrameKind::kMessage)
    return Status::Corrupt(std::string("an endpoint was sent a ") + KindName(header.kind));
  if (header.method == 0 || header.method > kP2pVerbMax)
    return Status::Corrupt("verb " + std::to_string(header.method) + ", limit " + std::to_string(kP2pVerbMax));
  const Rule& rule = kVerbRules[header.method];
  if (!CallFits(rule.call, header.call))
    return Status::Corrupt(std::string(rule.name) + ": call " + std::to_string(header.call) + " names nothing");
  if (header.aux > rule.aux_max) return Over(rule, "aux", header.aux, rule.aux_max);
  if (!rule.body && header.segments > 0) return Over(rule, "body_bytes", header.body_bytes, 0);
  P2pMessage message;
  message.verb = static_cast<P2pVerb>(header.method);
  message.id = header.call & ~kP2pMine;
  message.aux = header.aux;
  Reader reader(HeadOf(header, meta));
  for (size_t i = 0; i < rule.numbers; ++i) message.numbers[i] = reader.Number<uint64_t>();
  if (rule.behind == Behind::kHead || rule.behind == Behind::kHeadAndPayload) {
    message.head_bytes = header.aux & ~kP2pConfirmEager;
    if (message.head_bytes > kP2pHeadBytesMax) return Over(rule, "head_bytes", message.head_bytes, kP2pHeadBytesMax);
    message.head = reader.Take(message.head_bytes);
  }
  if (!reader.ok()) return Status::Corrupt(std::string(rule.name) + ": cut off");
  message.payload = reader.left();
  bool may_follow = rule.behind == Behind::kPayload || rule.behind == Behind::kHeadAndPayload ||
                    rule.behind == Behind::kStatusOrPayload || (rule.behind == Behind::kStatus && header.aux != 0);
  if (!may_follow && !message.payload.empty()) return Over(rule, "bytes after its end", message.payload.size, 0);
  if (header.body_bytes > 0 && !message.payload.empty())
    return Status::Corrupt(std::string(rule.name) + ": payload both in the head and in the body");
  bool is_error = rule.behind == Behind::kStatusOrPayload && header.aux != 0;
  if (is_error && header.body_bytes > 0) return Status::Corrupt(std::string(rule.name) + ": an error with a body");
  return message;
}

}  // namespace fusewire::wire
