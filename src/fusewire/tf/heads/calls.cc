// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/calls.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "fusewire/transport/address.h"

namespace fusewire::tf {
namespace {

constexpr int kPortVersion = 1;
constexpr const char* kFuses = "fuses";
constexpr size_t kHostBytesMax = 255;  // as of a name in DNS
// No host has a slash: an older version, which reads a host here, ignores these.
constexpr const char* kStateWord = "state/";
constexpr const char* kEpoch = "epoch/";
constexpr const char* kJoins = "joins/";
constexpr size_t kTaskBytesMax = 1024;

bool IsHost(const std::string& text) {
  Result<transport::Address> parsed = transport::Address::Parse(transport::Address{text, 1}.ToString());
  return parsed.ok() && parsed.value().host == text;
}

std::string Hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%" PRIx64, number);
  return text;
}

}  // namespace

bool DecodeCleanups(VarReader* reader, const std::function<void(int64_t)>& each) {
  const uint64_t count = reader->Varint();
  if (count > kCleanupsMax) return false;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t step = static_cast<int64_t>(reader->Fixed64());
    if (!reader->ok()) return false;
    each(step);
  }
  return reader->ok();
}

Status DecodeAbort(ConstBytes head, int64_t* step) {
  VarReader reader(head);
  *step = static_cast<int64_t>(reader.Fixed64());
  return reader.ok() ? Status::Ok() : Status::Invalid("the number of a step to abort is cut off");
}

Status DecodeEcho(ConstBytes head, bool has_body, uint64_t* bytes) {
  VarReader reader(head);
  *bytes = reader.Fixed64();
  if (!reader.ok() || !reader.done() || has_body) return Status::Invalid("an echo whose head is not a number of bytes");
  return Status::Ok();
}

Status DecodePlaceHead(ConstBytes head, PlaceHead* place) {
  VarReader reader(head);
  place->session = reader.Text();
  place->fingerprint = reader.Text();
  return reader.ok() && reader.done() ? Status::Ok() : Status::Invalid("a part of a graph without a name");
}

Status DecodePlaced(VarReader* reader, uint64_t* part, Again* again) {
  *part = reader->Fixed64();
  if (!reader->ok()) return Status::Corrupt("a peer's answer ends within the number of a part");
  const uint8_t said = reader->done() ? 0 : reader->Byte();
  // A value that only a newer server knows: to repeat nothing is always right.
  *again = said <= static_cast<uint8_t>(Again::kLeaves) ? static_cast<Again>(said) : Again::kNever;
  return Status::Ok();
}

void AppendTicket(const Ticket& ticket, std::string* out) {
  AppendFixed64(out, ticket.client);
  AppendVarint(out, ticket.number);
  AppendVarint(out, ticket.open);
}

Status DecodeRunHead(VarReader* reader, RunHead* run) {
  run->part = reader->Fixed64();
  run->step = static_cast<int64_t>(reader->Fixed64());
  const uint8_t flags = reader->Byte();
  if (!reader->ok()) return Status::Invalid("a request for a run ends before its flags");
  if ((flags & ~kRunFlagsAll) != 0) {
    return Status::Invalid("a request for a run has flags " + std::to_string(flags) + ", and only " +
                           std::to_string(kRunFlagsAll) + " is known: the worker's Fusewire is newer than ours");
  }
  run->is_traced = (flags & kTraced) != 0;
  if ((flags & kWithTicket) == 0) return Status::Ok();
  run->ticket.client = reader->Fixed64();
  run->ticket.number = reader->Varint();
  run->ticket.open = reader->Varint();
  if (!reader->ok()) return Status::Invalid("a request for a run ends within its ticket");
  if (run->ticket.open == 0 || run->ticket.open > run->ticket.number) {
    return Status::Invalid("a run has ticket " + std::to_string(run->ticket.number) + ", and tickets from " +
                           std::to_string(run->ticket.open) + " on are open: the first of these can't be later");
  }
  return Status::Ok();
}

KeepHead DecodeKeepHead(VarReader* reader) {
  KeepHead keep;
  keep.session = reader->Text();
  keep.step = static_cast<int64_t>(reader->Fixed64());
  return keep;
}

Status DecodeKeptHead(VarReader* reader, KeptHead* kept) {
  const uint64_t number = reader->Varint(), takers = reader->Varint();
  if (number >= kKeptNumbersMax || takers > UINT32_MAX) {
    return Status::Invalid("a value to be kept has number " + std::to_string(number) + " and " +
                           std::to_string(takers) + " takers: at least one is too large");
  }
  kept->number = static_cast<uint32_t>(number);
  kept->takers = static_cast<uint32_t>(takers);
  return Status::Ok();
}

std::string EncodeDataPort(const DataPort& port) {
  return "fusewire " + std::to_string(kPortVersion) + " " + std::to_string(port.port) + " " + Hex(port.incarnation) +
         " " + kFuses + " " + std::to_string(port.group_port) + " " + Hex(port.host) + " " +
         std::to_string(port.group_age) + (port.advertised.empty() ? "" : " " + port.advertised) +
         (port.state == 0 ? "" : " " + std::string(kStateWord) + Hex(port.state)) +
         (port.epoch == 0 ? "" : " " + std::string(kEpoch) + std::to_string(port.epoch)) +
         (port.joins ? " " + std::string(kJoins) : "");
}

bool DecodeDataPort(const std::string& text, DataPort* port) {
  int version = 0, rest = 0;
  unsigned number = 0, group_number = 0;
  char more[16] = "";
  int read = std::sscanf(text.c_str(), "fusewire %d %u %" SCNx64 " %15s %u %" SCNx64 " %" SCNu32 "%n", &version,
                         &number, &port->incarnation, more, &group_number, &port->host, &port->group_age, &rest);
  if (read < 3 || version != kPortVersion || number > UINT16_MAX) return false;
  if (read < 5 || group_number > UINT16_MAX) group_number = 0;
  if (read < 6) port->host = 0;
  if (read < 7) port->group_age = 0;
  port->port = static_cast<uint16_t>(number);
  port->group_port = static_cast<uint16_t>(group_number);
  port->fuses = std::strcmp(more, kFuses) == 0;
  port->advertised.clear();
  port->state = port->epoch = 0;
  port->joins = false;
  std::istringstream words(read < 7 ? "" : text.substr(static_cast<size_t>(rest)));
  bool is_first = true;
  for (std::string word; words >> word; is_first = false) {
    if (word.rfind(kStateWord, 0) == 0) {
      port->state = std::strtoull(word.c_str() + std::strlen(kStateWord), nullptr, 16);
    } else if (word.rfind(kEpoch, 0) == 0) {
      port->epoch = std::strtoull(word.c_str() + std::strlen(kEpoch), nullptr, 10);
    } else if (word == kJoins) {
      port->joins = true;
    } else if (is_first && word.size() <= kHostBytesMax && IsHost(word)) {
      port->advertised = word;
    }
  }
  return true;
}

std::string EncodeWhereabouts(const std::vector<Whereabout>& known) {
  std::string out;
  AppendVarint(&out, known.size());
  for (const Whereabout& one : known) {
    AppendText(&out, one.task);
    AppendText(&out, one.address);
    AppendFixed64(&out, one.incarnation);
    AppendFixed64(&out, one.state);
    AppendVarint(&out, one.epoch);
  }
  return out;
}

Status DecodeWhereabouts(ConstBytes in, std::vector<Whereabout>* known) {
  VarReader reader(in);
  const uint64_t count = reader.Varint();
  if (count > kWhereaboutsMax) {
    return Status::Invalid("the places of " + std::to_string(count) + " tasks, and at most " +
                           std::to_string(kWhereaboutsMax) + " come together");
  }
  known->clear();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    const ConstBytes task = reader.Text(), address = reader.Text();
    Whereabout one;
    one.incarnation = reader.Fixed64();
    one.state = reader.Fixed64();
    one.epoch = reader.Varint();
    if (!reader.ok()) break;
    if (task.size > kTaskBytesMax || address.size > kTaskBytesMax)
      return Status::Invalid("the place of a task has a name or an address of more than 1 KiB");
    one.task = task.ToString();
    one.address = address.ToString();
    Result<transport::Address> parsed = transport::Address::Parse(one.address);
    if (!parsed.ok() || parsed.value().port == 0)
      return Status::Invalid("the place of a task is not an address of the form host:port");
    known->push_back(std::move(one));
  }
  return reader.ok() && reader.done() ? Status::Ok() : Status::Invalid("the places of tasks are cut off");
}

}  // namespace fusewire::tf
