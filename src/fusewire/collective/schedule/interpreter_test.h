// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: runs the schedules of all ranks in one thread, in an order drawn from a seed. A send ends only when its
// receive stands ready, as on the wire that forgives least; so what runs here cannot wait for itself anywhere.
// Home: the test's thread. Owns: all arrays. Fails: returns what is wrong in words, or an empty string.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/collective/schedule/schedule.h"

namespace fusewire::collective {

using Numbers = std::vector<uint64_t>;

// Combines two numbers; the divisor of averages is checked by `last` alone.
using Combine = uint64_t (*)(uint64_t a, uint64_t b);

// The cost of a schedule to its rank: messages and elements sent, elements that reductions read after their first
// source, and elements copied.
struct Load {
  size_t stages = 0;
  size_t messages = 0;
  size_t sent = 0;
  size_t reduced = 0;
  size_t copied = 0;
};
inline Load LoadOf(const Schedule& schedule) {
  Load load;
  load.stages = schedule.stages.size();
  for (const Stage& stage : schedule.stages) {
    for (const Step& step : stage) {
      if (step.what == Step::Do::kReduce) load.reduced += step.span.count * (step.from.size() - 1);
      if (step.what == Step::Do::kCopy) load.copied += step.span.count;
      if (step.what != Step::Do::kSend) continue;
      ++load.messages;
      load.sent += step.span.count;
    }
  }
  return load;
}

struct Player {
  Schedule schedule;
  Numbers memory[3];  // by Memory
  size_t stage = 0;
  bool begun = false;
  size_t waiting = 0;  // messages of this stage that have not ended
};

class Interpreter {
 public:
  Interpreter(std::vector<Player> players, Combine combine, uint64_t seed)
      : players_(std::move(players)), combine_(combine), random_(seed) {}

  std::string Run() {
    size_t done = 0;
    while (done < players_.size()) {
      bool moved = false;
      done = 0;
      const size_t first = random_.Below(players_.size());
      for (size_t i = 0; i < players_.size() && error_.empty(); ++i) {
        moved |= Advance((first + i) % players_.size());
      }
      moved |= Match();
      for (const Player& player : players_) done += player.stage == player.schedule.stages.size() ? 1 : 0;
      if (!error_.empty()) return error_;
      if (!moved && done < players_.size()) return "deadlock";
    }
    for (const auto& [pair, queue] : sends_) {
      if (!queue.empty()) return "a send that nobody received";
    }
    return error_;
  }
  const std::vector<Player>& players() const { return players_; }
  size_t messages() const { return messages_; }
  size_t moved() const { return moved_; }

 private:
  struct Message {
    size_t rank;
    Span span;
  };

  bool Advance(size_t rank) {
    Player& player = players_[rank];
    if (player.stage == player.schedule.stages.size()) return false;
    const Stage& stage = player.schedule.stages[player.stage];
    if (!player.begun) {
      player.begun = true;
      CheckHazards(stage);
      for (const Step& step : stage) Begin(rank, step);
      return true;
    }
    if (player.waiting > 0) return false;
    player.begun = false;
    ++player.stage;
    return true;
  }

  static bool Overlap(const Span& a, const Span& b) {
    return a.memory == b.memory && a.at < b.at + b.count && b.at < a.at + a.count;
  }

  void CheckHazards(const Stage& stage) {
    for (size_t i = 0; i < stage.size(); ++i) {
      if (stage[i].what == Step::Do::kSend) continue;
      for (size_t k = 0; k < stage.size(); ++k) {
        if (k == i) continue;
        bool hazard = Overlap(stage[i].span, stage[k].span);
        for (const Span& span : stage[k].from) hazard |= Overlap(stage[i].span, span);
        if (hazard) error_ = "two steps of a stage meet in memory";
      }
    }
  }

  uint64_t* At(size_t rank, const Span& span) {
    Numbers& memory = players_[rank].memory[static_cast<size_t>(span.memory)];
    if (span.at + span.count <= memory.size()) return memory.data() + span.at;
    error_ = "a part beyond its memory";
    return nullptr;
  }

  void Begin(size_t rank, const Step& step) {
    uint64_t* to = At(rank, step.span);
    if (!error_.empty()) return;
    if (step.what == Step::Do::kSend || step.what == Step::Do::kReceive) {
      const bool sends = step.what == Step::Do::kSend;
      const auto peer = static_cast<size_t>(step.peer);
      if (peer >= players_.size() || peer == rank) error_ = "a message to nobody";
      auto& queue = sends ? sends_[{rank, peer}] : receives_[{peer, rank}];
      queue.push_back({rank, step.span});
      ++players_[rank].waiting;
      return;
    }
    std::vector<const uint64_t*> from;
    for (const Span& span : step.from) {
      from.push_back(At(rank, span));
      if (span.count != step.span.count) error_ = "sources of another size";
    }
    if (!error_.empty()) return;
    for (size_t i = 0; i < step.span.count; ++i) {
      uint64_t sum = from[0][i];
      for (size_t s = 1; s < from.size(); ++s) sum = combine_(sum, from[s][i]);
      to[i] = sum;
    }
  }

  bool Match() {
    bool matched = false;
    for (auto& [pair, queue] : sends_) {
      auto& waiting = receives_[pair];
      while (!queue.empty() && !waiting.empty() && error_.empty()) {
        const Message sent = queue.front();
        const Message landed = waiting.front();
        queue.pop_front();
        waiting.pop_front();
        if (sent.span.count != landed.span.count) {
          error_ = "rank " + std::to_string(sent.rank) + " sends " + std::to_string(sent.span.count) + " to rank " +
                   std::to_string(landed.rank) + ", which expects " + std::to_string(landed.span.count);
          return true;
        }
        const uint64_t* from = At(sent.rank, sent.span);
        uint64_t* to = At(landed.rank, landed.span);
        for (size_t i = 0; i < sent.span.count; ++i) to[i] = from[i];
        --players_[sent.rank].waiting;
        --players_[landed.rank].waiting;
        ++messages_;
        moved_ += sent.span.count;
        matched = true;
      }
    }
    return matched;
  }

  std::vector<Player> players_;
  const Combine combine_;
  Random random_;
  std::map<std::pair<size_t, size_t>, std::deque<Message>> sends_;
  std::map<std::pair<size_t, size_t>, std::deque<Message>> receives_;
  std::string error_;
  size_t messages_ = 0;
  size_t moved_ = 0;
};

}  // namespace fusewire::collective
