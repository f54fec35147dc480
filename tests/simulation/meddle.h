// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Canaries: each spoils one thing, once, behind the checker's back. A checker that does not notice is broken.
#pragma once

#include <string>

namespace fusewire::simulation {

enum class Meddle {
  kNothing,
  kFlipAnswer,     // a byte of an answer
  kSwapParts,      // two parts of a stream change their places
  kSkipPart,       // a part of a stream is never seen
  kDropDone,       // a Done is not heard
  kDoubleDone,     // a Done is heard twice
  kLateDone,       // a deadline passes unheard for a while
  kWrongCode,      // an answer becomes an error that nothing explains
  kMuteError,      // an error loses its words
  kHandleTwice,    // a handler runs again
  kLoseRelease,    // lent memory does not come back
  kDoubleRelease,  // or comes back twice
  kLateWrite,      // a landing is written after its Done
  kHoldBudget,     // a share of a receive budget is never given back
  kOverBudget,     // more is taken of a budget than there is
  kLargeCopy,      // payload is copied
  kHang,           // a handler never answers
  kDeadLink,       // a fault goes on after the end of faults
  kNoise,          // chance that comes from no seed
};

// The names for --meddle: "flip-answer" ... "noise"; null behind the last.
const char* NameOf(Meddle meddle);
// kNothing for an unknown name.
Meddle MeddleByName(const std::string& name);
// The kind of the finding that has to follow.
const char* FindingOf(Meddle meddle);

class Meddler {
 public:
  explicit Meddler(Meddle meddle) : meddle_(meddle) {}
  // True at the first time that it is asked for its kind.
  bool Strikes(Meddle meddle) {
    if (meddle != meddle_ || struck_) return false;
    struck_ = true;
    return true;
  }
  bool struck() const { return struck_; }

 private:
  const Meddle meddle_;
  bool struck_ = false;
};

}  // namespace fusewire::simulation
