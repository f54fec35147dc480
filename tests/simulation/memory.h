// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Bytes that can be recognised, and a ledger of all memory that the runtime is lent: each piece has to come back once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/buffer/buffer.h"
#include "journal.h"
#include "meddle.h"

namespace fusewire::simulation {

// The place of a piece of payload: together with the call's number it determines the bytes.
enum class Use : uint32_t { kRequestHead, kRequest, kAnswerHead, kAnswer, kPartHead, kPart };

uint64_t PatternOf(int number, Use use, size_t index);
void FillPattern(Bytes bytes, uint64_t pattern);
// Where the first byte is that differs, or bytes.size.
size_t Mismatch(ConstBytes bytes, uint64_t pattern);
std::string PatternText(size_t size, uint64_t pattern);

class Ledger {
 public:
  Ledger(Journal* journal, Meddler* meddler) : journal_(*journal), meddler_(*meddler) {}

  // Memory of ours that the runtime may keep until it calls Release.
  Buffer Lend(size_t size, uint64_t pattern, int number);
  // One Buffer for each size; Buffer i has the pattern of (number, use, first_index + i).
  Buffers LendAll(const std::vector<size_t>& sizes, int number, Use use, size_t first_index = 0);
  size_t lent() const { return loans_.size(); }
  // At the end: finds what never came back.
  void CheckAllBack();

 private:
  struct Loan {
    Ledger* ledger;
    std::unique_ptr<uint8_t[]> memory;  // gone once it has come back: a later look is found by the address sanitizer
    size_t size;
    int number;
    int releases;
  };
  static void Back(void* owner, Bytes bytes);

  Journal& journal_;
  Meddler& meddler_;
  std::deque<Loan> loans_;
};

// Memory of ours that a body shall land in; afterwards nobody may touch it.
class Landing {
 public:
  explicit Landing(size_t size);
  Bytes bytes() const { return Bytes(memory_.get(), size_); }
  // From now on it must not change.
  void Seal();
  bool sealed() const { return sealed_; }
  bool IsAsSealed() const;
  void Free() { memory_.reset(); }

 private:
  size_t size_;
  bool sealed_ = false;
  std::unique_ptr<uint8_t[]> memory_;
};

}  // namespace fusewire::simulation
