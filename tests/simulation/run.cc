// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <algorithm>

#include "member.h"

namespace fusewire::simulation {
namespace {

uint64_t Cost(size_t head_bytes, const std::vector<size_t>& sizes) {
  uint64_t cost = wire::kHeaderBytes + head_bytes + sizes.size() * sizeof(uint64_t);
  for (size_t size : sizes) cost += size;
  return cost;
}

}  // namespace

Run::Run(uint64_t seed, Meddle meddle, bool print)
    : plan(DrawPlan(seed)),
      journal(print),
      meddler(meddle),
      ledger(&journal, &meddler),
      world(seed, plan.network),
      records(plan.questions.size()) {
  journal.set_clock(world.clock());
  for (size_t i = 0; i < records.size(); ++i) {
    const Question& question = plan.questions[i];
    records[i].question = &question;
    bytes_max = std::max(bytes_max, Cost(question.head_bytes + 4, question.request));
    bytes_max = std::max(bytes_max, Cost(question.answer_head_bytes, question.answer));
    for (const auto& part : question.parts) bytes_max = std::max(bytes_max, Cost(8, part));
  }
}

Run::~Run() = default;

void Run::Disturb(int one, int other) { disturbed_.insert(std::minmax(one, other)); }

bool Run::disturbed(int one, int other) const { return disturbed_.count(std::minmax(one, other)) > 0; }

}  // namespace fusewire::simulation
