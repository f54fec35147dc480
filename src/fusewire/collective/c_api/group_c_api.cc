// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/c_api/group_c_api.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/collective/group/group.h"
#include "fusewire/p2p/c_handles.h"
#include "fusewire/reactor/cancel.h"

using fusewire::Status;
using fusewire::p2p::KeepError;
namespace collective = fusewire::collective;

struct fusewire_group {
  std::unique_ptr<collective::Group> group;
};
struct fusewire_ticket {
  std::vector<collective::Piece> from, to;
  std::unique_ptr<collective::Ticket> ticket;
};

namespace {

std::vector<collective::Piece> PiecesFrom(const fusewire_piece* pieces, size_t count) {
  std::vector<collective::Piece> list;
  for (size_t i = 0; i < count; ++i) list.push_back({pieces[i].data, pieces[i].bytes});
  return list;
}

collective::Pieces Of(const std::vector<collective::Piece>& list) {
  if (list.size() == 1) return collective::Pieces(list[0].data, list[0].bytes);
  return list.empty() ? collective::Pieces() : collective::Pieces(list.data(), list.size());
}

std::vector<size_t> Counts(const uint64_t* counts, size_t size) { return std::vector<size_t>(counts, counts + size); }

Status CheckNumbers(const fusewire_collective_spec& spec) {
  const bool known = spec.kind >= 0 && spec.kind < collective::kKinds && spec.type >= 0 &&
                     spec.type < collective::kTypes && spec.op >= 0 && spec.op < collective::kBuiltInOps;
  if (known) return Status::Ok();
  return Status::Invalid("`kind` is " + std::to_string(spec.kind) + ", `op` " + std::to_string(spec.op) + ", `type` " +
                         std::to_string(spec.type) + ": at least one is unknown")
      .Next("use the numbers of collective/kernels/types.h");
}

// The lists are borrowed.
collective::CollectiveSpec SpecOf(const fusewire_collective_spec& spec, const std::vector<collective::Piece>& from,
                                  const std::vector<collective::Piece>& to) {
  collective::CollectiveSpec wants;
  wants.kind = static_cast<collective::CollectiveKind>(spec.kind);
  wants.reduction.op = static_cast<collective::Op>(spec.op);
  wants.reduction.type = static_cast<collective::Type>(spec.type);
  wants.root = spec.root;
  wants.counts = Counts(spec.counts, spec.counts_size);
  wants.receives = Counts(spec.receives, spec.receives_size);
  wants.from = Of(from);
  wants.to = Of(to);
  wants.key = spec.key;
  wants.confirm = spec.confirm != 0;
  wants.timeout_ns = spec.timeout_ns;
  return wants;
}

struct KindWords {
  std::string name;
  std::string algorithms;
};

const KindWords* WordsOf(int kind) {
  static const std::vector<KindWords>* const kAll = [] {
    auto all = std::make_unique<std::vector<KindWords>>();
    for (uint8_t one = 0; one < collective::kKinds; ++one) {
      KindWords words;
      words.name = collective::KindName(static_cast<collective::CollectiveKind>(one));
      for (const collective::Algorithm algorithm :
           collective::AlgorithmsOf(static_cast<collective::CollectiveKind>(one)))
        words.algorithms += (words.algorithms.empty() ? "" : " ") + collective::AlgorithmName(algorithm);
      all->push_back(std::move(words));
    }
    return all.release();  // callers keep pointers into it until the process ends
  }();
  return kind >= 0 && kind < collective::kKinds ? &(*kAll)[static_cast<size_t>(kind)] : nullptr;
}

}  // namespace

const char* fusewire_collective_kind(int kind) {
  const KindWords* words = WordsOf(kind);
  return words == nullptr ? nullptr : words->name.c_str();
}

const char* fusewire_collective_algorithms(int kind) {
  const KindWords* words = WordsOf(kind);
  return words == nullptr ? nullptr : words->algorithms.c_str();
}

int fusewire_group_make(fusewire_endpoint* endpoint, const fusewire_group_options* spec, fusewire_group** out) {
  collective::GroupOptions options;
  options.name = spec->name;
  options.rank = spec->rank;
  options.reproducible = spec->reproducible != 0;
  options.arena = spec->without_arena == 0;
  if (spec->hosts != nullptr) options.places.hosts.assign(spec->hosts, spec->hosts + spec->ranks);
  if (spec->table != nullptr) {
    auto table = collective::ParseTable(spec->table);
    if (!table.ok()) return KeepError(table.status());
    options.table = std::move(table).value();
  }
  for (int i = 0; i < spec->ranks; ++i) {
    collective::GroupMember member;
    member.name = spec->names[i];
    const char* address = spec->addresses[i];
    if (address != nullptr && address[0] != 0) {
      auto where = fusewire::transport::Address::Parse(address);
      if (!where.ok()) return KeepError(where.status());
      member.address = where.value();
    }
    options.members.push_back(std::move(member));
  }
  auto made = collective::Group::Make(*endpoint->endpoint, std::move(options));
  if (!made.ok()) return KeepError(made.status());
  auto handle = std::make_unique<fusewire_group>();
  handle->group = std::move(made).value();
  *out = handle.release();  // C's, until fusewire_group_free
  return 0;
}

int fusewire_group_subgroup(fusewire_group* group, const char* name, const int* ranks, int count,
                            fusewire_group** out) {
  auto made = group->group->MakeSubgroup(name, std::vector<int>(ranks, ranks + count));
  if (!made.ok()) return KeepError(made.status());
  auto handle = std::make_unique<fusewire_group>();
  handle->group = std::move(made).value();
  *out = handle.release();  // C's, until fusewire_group_free
  return 0;
}

int fusewire_group_show(fusewire_group* group, const char* place, const char* runtime) {
  const Status status = group->group->Show(place == nullptr ? "" : place, runtime == nullptr ? "" : runtime);
  return status.ok() ? 0 : KeepError(status);
}

void fusewire_group_free(fusewire_group* group) { std::unique_ptr<fusewire_group> last(group); }
int fusewire_group_rank(fusewire_group* group) { return group->group->rank(); }
int fusewire_group_ranks(fusewire_group* group) { return group->group->ranks(); }
uint32_t fusewire_group_epoch(fusewire_group* group) { return group->group->epoch(); }
void fusewire_group_abort(fusewire_group* group, const char* why) { group->group->Abort(Status::Cancelled(why)); }

int fusewire_group_shrink(fusewire_group* group, int64_t timeout_ns) {
  const Status status = group->group->Shrink(timeout_ns);
  return status.ok() ? 0 : KeepError(status);
}

int fusewire_group_broken(fusewire_group* group) {
  const Status status = group->group->broken();
  return status.ok() ? 0 : KeepError(status);
}

int fusewire_group_in_arena(fusewire_group* group) { return group->group->in_arena() ? 1 : 0; }

int fusewire_group_run(fusewire_group* group, const fusewire_collective_spec* spec, const fusewire_waiting* waiting) {
  const Status known = CheckNumbers(*spec);
  if (!known.ok()) return KeepError(known);
  const std::vector<collective::Piece> from = PiecesFrom(spec->from, spec->from_size);
  const std::vector<collective::Piece> to = PiecesFrom(spec->to, spec->to_size);
  void* begun = nullptr;
  std::optional<fusewire::reactor::CancelToken> cancel;
  if (waiting != nullptr) {
    cancel.emplace([waiting, &begun] {
      waiting->end(begun);
      const bool stops = waiting->called_off() != 0;
      begun = waiting->begin();
      return stops;
    });
    begun = waiting->begin();
  }
  const Status status = group->group->Run(SpecOf(*spec, from, to), waiting == nullptr ? nullptr : &*cancel);
  if (waiting != nullptr) waiting->end(begun);
  return status.ok() ? 0 : KeepError(status);
}

int fusewire_group_start(fusewire_group* group, const fusewire_collective_spec* spec, fusewire_ticket** out) {
  const Status known = CheckNumbers(*spec);
  if (!known.ok()) return KeepError(known);
  auto handle = std::make_unique<fusewire_ticket>();
  handle->from = PiecesFrom(spec->from, spec->from_size);
  handle->to = PiecesFrom(spec->to, spec->to_size);
  handle->ticket = group->group->StartTicket(SpecOf(*spec, handle->from, handle->to));
  *out = handle.release();  // C's, until fusewire_ticket_free
  return 0;
}

int fusewire_ticket_wait(fusewire_ticket* ticket, int64_t limit_ns) {
  const bool asks = limit_ns < 0;
  const auto interrupts = asks ? fusewire::reactor::Interrupts::kEndWait : fusewire::reactor::Interrupts::kGoOn;
  return ticket->ticket->Wait(asks ? fusewire::reactor::kAskNs : limit_ns, interrupts) ? 1 : 0;
}

int fusewire_ticket_result(fusewire_ticket* ticket) {
  const Status& status = ticket->ticket->status();
  return status.ok() ? 0 : KeepError(status);
}

void fusewire_ticket_cancel(fusewire_ticket* ticket) {
  ticket->ticket->Cancel(Status::Cancelled("the caller cancelled it"));
}

void fusewire_ticket_free(fusewire_ticket* ticket) { std::unique_ptr<fusewire_ticket> last(ticket); }
