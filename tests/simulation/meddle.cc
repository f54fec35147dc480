// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "meddle.h"

namespace fusewire::simulation {
namespace {

struct Row {
  Meddle meddle;
  const char* name;
  const char* finding;
};

constexpr Row kRows[] = {
    {Meddle::kFlipAnswer, "flip-answer", "wrong-bytes"},
    {Meddle::kSwapParts, "swap-parts", "wrong-part"},
    {Meddle::kSkipPart, "skip-part", "lost-part"},
    {Meddle::kDropDone, "drop-done", "never-done"},
    {Meddle::kDoubleDone, "double-done", "done-twice"},
    {Meddle::kLateDone, "late-done", "late-done"},
    {Meddle::kWrongCode, "wrong-code", "unexplained"},
    {Meddle::kMuteError, "mute-error", "no-words"},
    {Meddle::kHandleTwice, "handle-twice", "handled-twice"},
    {Meddle::kLoseRelease, "lose-release", "never-released"},
    {Meddle::kDoubleRelease, "double-release", "released-twice"},
    {Meddle::kLateWrite, "late-write", "late-write"},
    {Meddle::kHoldBudget, "hold-budget", "budget-held"},
    {Meddle::kOverBudget, "over-budget", "over-budget"},
    {Meddle::kLargeCopy, "large-copy", "large-copy"},
    {Meddle::kHang, "hang", "never-done"},
    {Meddle::kDeadLink, "dead-link", "no-recovery"},
    {Meddle::kNoise, "noise", "not-repeatable"},
};

}  // namespace

const char* NameOf(Meddle meddle) {
  for (const Row& row : kRows) {
    if (row.meddle == meddle) return row.name;
  }
  return nullptr;
}

Meddle MeddleByName(const std::string& name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.meddle;
  }
  return Meddle::kNothing;
}

const char* FindingOf(Meddle meddle) {
  for (const Row& row : kRows) {
    if (row.meddle == meddle) return row.finding;
  }
  return nullptr;
}

}  // namespace fusewire::simulation
