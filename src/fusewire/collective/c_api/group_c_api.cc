// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/c_api/group_c_api.h"

#include <memory>
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

namespace fusewire::collective {

// The arrays of an operation of C: one needs no list.
class PieceList {
 public:
  PieceList(const fusewire_piece* pieces, size_t count) {
    if (count == 1) pieces_ = Pieces(pieces[0].data, pieces[0].bytes);
    if (count < 2) return;
    for (size_t i = 0; i < count; ++i) list_.push_back({pieces[i].data, pieces[i].bytes});
    pieces_ = Pieces(list_.data(), list_.size());
  }
  PieceList(const PieceList&) = delete;
  PieceList& operator=(const PieceList&) = delete;
  const Pieces& pieces() const { return pieces_; }

 private:
  std::vector<Piece> list_;
  Pieces pieces_;
};

// What C holds: with the lists of its arrays.
template <class T>
struct Held {
  explicit Held(const fusewire_collective_spec& spec) : from(spec.from, spec.from_size), to(spec.to, spec.to_size) {}
  const PieceList from, to;
  std::unique_ptr<T> held;
};

}  // namespace fusewire::collective

struct fusewire_ticket : collective::Held<collective::Ticket> {
  using Held::Held;
};
struct fusewire_plan : collective::Held<collective::Plan> {
  using Held::Held;
};

namespace {

using collective::PieceList;

int CodeOf(const Status& status) { return status.ok() ? 0 : KeepError(status); }

Status CheckNumbers(const fusewire_collective_spec& spec) {
  const bool known = spec.kind >= 0 && spec.kind < collective::kKinds && spec.type >= 0 &&
                     spec.type < collective::kTypes && spec.op >= 0 && spec.op < collective::kBuiltInOps;
  if (known) return Status::Ok();
  return Status::Invalid("`kind` is " + std::to_string(spec.kind) + ", `op` " + std::to_string(spec.op) + ", `type` " +
                         std::to_string(spec.type) + ": at least one is unknown")
      .Next("use the numbers of collective/kernels/types.h");
}

// `from` and `to` are borrowed.
void Fill(const fusewire_collective_spec& spec, const PieceList& from, const PieceList& to,
          collective::CollectiveSpec* out) {
  out->kind = static_cast<collective::CollectiveKind>(spec.kind);
  out->reduction.op = static_cast<collective::Op>(spec.op);
  out->reduction.type = static_cast<collective::Type>(spec.type);
  out->root = spec.root;
  out->counts.assign(spec.counts, spec.counts + spec.counts_size);
  out->receives.assign(spec.receives, spec.receives + spec.receives_size);
  out->from = from.pieces();
  out->to = to.pieces();
  out->key = spec.key;
  out->confirm = spec.confirm != 0;
  out->timeout_ns = spec.timeout_ns;
}

// Runs what the caller waits for: `run` gets its token, or null.
template <class Run>
int RunWaiting(const fusewire_waiting* waiting, Run run) {
  if (waiting == nullptr) return CodeOf(run(nullptr));
  void* begun = waiting->begin();
  fusewire::reactor::CancelToken cancel([waiting, &begun] {
    waiting->end(begun);
    const bool stops = waiting->called_off() != 0;
    begun = waiting->begin();
    return stops;
  });
  const Status status = run(&cancel);
  waiting->end(begun);
  return CodeOf(status);
}

// The result is C's, until it frees it, as below.
template <class Handle, class Make>
int MakeHandle(const fusewire_collective_spec& spec, Handle** out, Make make) {
  const Status known = CheckNumbers(spec);
  if (!known.ok()) return KeepError(known);
  auto handle = std::make_unique<Handle>(spec);
  collective::CollectiveSpec copied;
  Fill(spec, handle->from, handle->to, &copied);
  handle->held = make(std::move(copied));
  *out = handle.release();
  return 0;
}

int MakeHandle(fusewire::Result<std::unique_ptr<collective::Group>> made, fusewire_group** out) {
  if (!made.ok()) return KeepError(made.status());
  auto handle = std::make_unique<fusewire_group>();
  handle->group = std::move(made).value();
  *out = handle.release();
  return 0;
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
  return MakeHandle(collective::Group::Make(*endpoint->endpoint, std::move(options)), out);
}

int fusewire_group_subgroup(fusewire_group* group, const char* name, const int* ranks, int count,
                            fusewire_group** out) {
  return MakeHandle(group->group->MakeSubgroup(name, std::vector<int>(ranks, ranks + count)), out);
}

int fusewire_group_show(fusewire_group* group, const char* place, const char* runtime) {
  return CodeOf(group->group->Show(place == nullptr ? "" : place, runtime == nullptr ? "" : runtime));
}

void fusewire_group_free(fusewire_group* group) { std::unique_ptr<fusewire_group> last(group); }
int fusewire_group_rank(fusewire_group* group) { return group->group->rank(); }
int fusewire_group_ranks(fusewire_group* group) { return group->group->ranks(); }
uint32_t fusewire_group_epoch(fusewire_group* group) { return group->group->epoch(); }
void fusewire_group_abort(fusewire_group* group, const char* why) { group->group->Abort(Status::Cancelled(why)); }

int fusewire_group_shrink(fusewire_group* group, int64_t timeout_ns) {
  return CodeOf(group->group->Shrink(timeout_ns));
}

int fusewire_group_broken(fusewire_group* group) { return CodeOf(group->group->broken()); }
int fusewire_group_in_arena(fusewire_group* group) { return group->group->in_arena() ? 1 : 0; }

int fusewire_group_run(fusewire_group* group, const fusewire_collective_spec* spec, const fusewire_waiting* waiting) {
  const Status known = CheckNumbers(*spec);
  if (!known.ok()) return KeepError(known);
  const PieceList from(spec->from, spec->from_size), to(spec->to, spec->to_size);
  // What its lists have allocated, the next call uses. The group copies it before it waits: a handler of `waiting` may
  // come here again.
  static thread_local collective::CollectiveSpec reused;
  Fill(*spec, from, to, &reused);
  return RunWaiting(waiting,
                    [group](fusewire::reactor::CancelToken* cancel) { return group->group->Run(reused, cancel); });
}

int fusewire_group_start(fusewire_group* group, const fusewire_collective_spec* spec, fusewire_ticket** out) {
  return MakeHandle(*spec, out, [group](auto copied) { return group->group->StartTicket(std::move(copied)); });
}

int fusewire_plan_make(fusewire_group* group, const fusewire_collective_spec* spec, fusewire_plan** out) {
  return MakeHandle(*spec, out, [group](auto copied) { return group->group->MakePlan(std::move(copied)); });
}

int fusewire_plan_run(fusewire_plan* plan, const fusewire_waiting* waiting) {
  return RunWaiting(waiting, [plan](fusewire::reactor::CancelToken* cancel) { return plan->held->Run(cancel); });
}

int fusewire_plan_start(fusewire_plan* plan, fusewire_ticket** out) {
  return MakeHandle(fusewire_collective_spec{}, out, [plan](const auto&) { return plan->held->StartTicket(); });
}

void fusewire_plan_free(fusewire_plan* plan) { std::unique_ptr<fusewire_plan> last(plan); }

int fusewire_ticket_wait(fusewire_ticket* ticket, int64_t limit_ns) {
  const bool asks = limit_ns < 0;
  const auto interrupts = asks ? fusewire::reactor::Interrupts::kEndWait : fusewire::reactor::Interrupts::kGoOn;
  return ticket->held->Wait(asks ? fusewire::reactor::kAskNs : limit_ns, interrupts) ? 1 : 0;
}

int fusewire_ticket_result(fusewire_ticket* ticket) { return CodeOf(ticket->held->status()); }

void fusewire_ticket_cancel(fusewire_ticket* ticket) {
  ticket->held->Cancel(Status::Cancelled("the caller cancelled it"));
}

void fusewire_ticket_free(fusewire_ticket* ticket) { std::unique_ptr<fusewire_ticket> last(ticket); }
