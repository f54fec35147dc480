// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/life_lines.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::collective {

namespace {

// The poll events that mean the end: a hang-up of a pipe or a socket; a pidfd becomes readable.
int16_t LifeEvents(int fd) {
  struct stat about {};
  const bool stream = fstat(fd, &about) == 0 && (S_ISSOCK(about.st_mode) || S_ISFIFO(about.st_mode));
  const int16_t ended = POLLHUP | POLLERR | POLLNVAL | POLLRDHUP;
  return stream ? ended : static_cast<int16_t>(ended | POLLIN);
}

}  // namespace

LifeLines::LifeLines(std::vector<int> lives) : lives_(std::move(lives)) {
  for (const int life : lives_) events_.push_back(life < 0 ? int16_t{0} : LifeEvents(life));
  FUSEWIRE_DCHECK(events_.size() == lives_.size());
}

LifeLines::~LifeLines() {
  for (const int life : lives_) {
    if (life >= 0) close(life);
  }
}

Status LifeLines::Check(int own, int ranks) const {
  if (own < 0 || own >= ranks || lives_.size() != static_cast<size_t>(ranks)) {
    return Status::Invalid("the seat has `rank` " + std::to_string(own) + ", `ranks` " + std::to_string(ranks) +
                           " and " + std::to_string(lives_.size()) + " `lives`")
        .Next("give a rank below `ranks`, and a life line for every rank (-1 for this one)");
  }
  for (int other = 0; other < ranks; ++other) {
    if (other == own || lives_[static_cast<size_t>(other)] >= 0) continue;
    return Status::Invalid("rank " + std::to_string(other) + " has no life line")
        .Next("give a socket, pipe or pidfd that ends with that rank");
  }
  return Status::Ok();
}

bool LifeLines::Look(int rank, int timeout_ms) const {
  const auto index = static_cast<size_t>(rank);
  FUSEWIRE_DCHECK(index < lives_.size());
  FUSEWIRE_DCHECK(lives_[index] >= 0);  // a rank does not ask about itself
  pollfd life{lives_[index], static_cast<int16_t>(events_[index] & (POLLIN | POLLRDHUP)), 0};
  return poll(&life, 1, timeout_ms) > 0 && (life.revents & events_[index]) != 0;
}

bool LifeLines::HasEnded(int rank) const { return Look(rank, 0); }

void LifeLines::AwaitEnd(int rank, int64_t patience_ns) const {
  Look(rank, static_cast<int>(patience_ns / kMillisecondNs));
}

}  // namespace fusewire::collective
