// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/life_lines.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace collective {

namespace {

// Which events say that a life line has ended: of a pipe or a socket its end, of a pidfd that it can be read.
int16_t LifeEvents(int fd) {
  struct stat about {};
  const bool stream = fstat(fd, &about) == 0 && (S_ISSOCK(about.st_mode) || S_ISFIFO(about.st_mode));
  const int16_t ended = POLLHUP | POLLERR | POLLNVAL | POLLRDHUP;
  return stream ? ended : static_cast<int16_t>(ended | POLLIN);
}

}  // namespace

LifeLines::LifeLines(std::vector<int> lives) : lives_(std::move(lives)) {
  for (const int life : lives_) events_.push_back(life < 0 ? int16_t{0} : LifeEvents(life));
}

LifeLines::~LifeLines() {
  for (const int life : lives_) {
    if (life >= 0) close(life);
  }
}

Status LifeLines::Check(int own, int ranks) const {
  if (own < 0 || own >= ranks || lives_.size() != static_cast<size_t>(ranks)) {
    return Status::Invalid("rank " + std::to_string(own) + " of " + std::to_string(ranks) + " with " +
                           std::to_string(lives_.size()) + " life lines")
        .Next("give each rank a number below ranks, and a life line for every rank (-1 for oneself)");
  }
  for (int other = 0; other < ranks; ++other) {
    if (other == own || lives_[static_cast<size_t>(other)] >= 0) continue;
    return Status::Invalid("rank " + std::to_string(other) + " has no life line")
        .Next("give a socket, pipe or pidfd that ends with it");
  }
  return Status::Ok();
}

bool LifeLines::HasEnded(int rank) const {
  const auto index = static_cast<size_t>(rank);
  FUSEWIRE_DCHECK(index < lives_.size());
  pollfd life{lives_[index], static_cast<int16_t>(POLLIN | POLLRDHUP), 0};
  return poll(&life, 1, 0) > 0 && (life.revents & events_[index]) != 0;
}

}  // namespace collective
}  // namespace fusewire
