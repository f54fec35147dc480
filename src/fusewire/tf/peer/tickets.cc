// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/tickets.h"

#include <algorithm>
#include <cerrno>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"
#include "fusewire/tf/peer/channel.h"
#include "fusewire/tf/peer/marks.h"

namespace fusewire::tf {

TicketBook::TicketBook() : client_(SystemRandom64()) {}

Ticket TicketBook::Take() {
  MutexLock lock(mutex_);
  open_.push_back(++last_);
  return Ticket{client_, last_, open_.front()};
}

void TicketBook::GiveBack(const Ticket& ticket) {
  FUSEWIRE_DCHECK(ticket.client == client_);
  MutexLock lock(mutex_);
  auto found = std::lower_bound(open_.begin(), open_.end(), ticket.number);
  FUSEWIRE_CHECK(found != open_.end() && *found == ticket.number);
  open_.erase(found);
}

void Repeats::Begin(const Channel& channel) { losses_ = channel.losses(); }

bool Repeats::IsAgain(const Channel& channel, Status* status) {
  // While the connection stands, an error is about the call itself.
  if (status->ok() || channel.losses() == losses_) return false;
  const bool is_first = deadline_ns_ == 0;
  if (is_first) {
    first_ = *status;
    deadline_ns_ = channel.RecoversUntilNs();
  }
  // A port that does not answer the first dial is behind a firewall, or another one is meant.
  const bool may_help = status->code() == Code::kUnavailable || status->code() == Code::kCorrupt ||
                        (status->code() == Code::kTimeout && !is_first);
  const bool is_dead = status->system_error() == ECONNREFUSED;  // its port is closed
  if (may_help && !is_dead && channel.NowNs() < deadline_ns_) {
    GlobalCounters().Add(&Counters::calls_repeated);
    return true;
  }
  if (IsLost(*status) || status->code() == Code::kTimeout) *status = first_;
  return false;
}

}  // namespace fusewire::tf
