// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <algorithm>
#include <cstring>

namespace fusewire::simulation {
namespace {

constexpr uint64_t kSealPattern = 0x5ea1;

uint64_t Word(uint64_t pattern, uint64_t index) {
  uint64_t mixed = (index + 1) * 0x9e3779b97f4a7c15ULL ^ pattern;
  return mixed ^ mixed >> 29;
}

}  // namespace

uint64_t PatternOf(int number, Use use, size_t index) {
  uint64_t name = static_cast<uint64_t>(number) << 40 | static_cast<uint64_t>(use) << 32 | index;
  return (name + 1) * 0xbf58476d1ce4e5b9ULL;
}

void FillPattern(Bytes bytes, uint64_t pattern) {
  for (size_t at = 0; at < bytes.size; at += sizeof(uint64_t)) {
    uint64_t word = Word(pattern, at / sizeof(uint64_t));
    std::memcpy(bytes.data + at, &word, std::min(sizeof(word), bytes.size - at));
  }
}

size_t Mismatch(ConstBytes bytes, uint64_t pattern) {
  for (size_t at = 0; at < bytes.size; at += sizeof(uint64_t)) {
    uint64_t word = Word(pattern, at / sizeof(uint64_t));
    if (std::memcmp(bytes.data + at, &word, std::min(sizeof(word), bytes.size - at)) != 0) return at;
  }
  return bytes.size;
}

std::string PatternText(size_t size, uint64_t pattern) {
  std::string text(size, '\0');
  FillPattern(Bytes(text.data(), text.size()), pattern);
  return text;
}

Buffer Ledger::Lend(size_t size, uint64_t pattern, int number) {
  loans_.push_back(Loan{this, std::make_unique<uint8_t[]>(size), size, number, 0});
  Loan& loan = loans_.back();
  Bytes bytes(loan.memory.get(), size);
  FillPattern(bytes, pattern);
  return Buffer::Wrap(bytes, &loan, &Ledger::Back);
}

Buffers Ledger::LendAll(const std::vector<size_t>& sizes, int number, Use use, size_t first_index) {
  Buffers buffers;
  buffers.reserve(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    buffers.push_back(Lend(sizes[i], PatternOf(number, use, first_index + i), number));
  }
  return buffers;
}

void Ledger::Back(void* owner, Bytes bytes) {
  Loan& loan = *static_cast<Loan*>(owner);
  Journal& journal = loan.ledger->journal_;
  if (loan.ledger->meddler_.Strikes(Meddle::kLoseRelease)) return;
  ++loan.releases;
  if (loan.ledger->meddler_.Strikes(Meddle::kDoubleRelease)) ++loan.releases;
  if (loan.releases > 1)
    journal.Find("released-twice", "memory of call %d came back %d times", loan.number, loan.releases);
  bool same = bytes.size == loan.size && (loan.releases > 1 || bytes.data == loan.memory.get());
  if (!same) journal.Find("released-other", "what came back for call %d is not what was lent", loan.number);
  loan.memory.reset();
}

void Ledger::CheckAllBack() {
  for (const Loan& loan : loans_) {
    if (loan.releases == 0) journal_.Find("never-released", "%zu bytes lent for call %d", loan.size, loan.number);
  }
}

Landing::Landing(size_t size) : size_(size), memory_(std::make_unique<uint8_t[]>(size)) {}

void Landing::Seal() {
  sealed_ = true;
  FillPattern(bytes(), kSealPattern);
}

bool Landing::IsAsSealed() const { return memory_ == nullptr || Mismatch(bytes(), kSealPattern) == size_; }

}  // namespace fusewire::simulation
