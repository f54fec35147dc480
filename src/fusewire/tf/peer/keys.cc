// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/keys.h"

#include <utility>

#include <absl/strings/str_cat.h>
#include "fusewire/base/check.h"
#include "fusewire/base/random.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/heads/receives.h"

namespace fusewire::tf {
namespace {

// A receiver of a thousand parameters from each of a thousand steps' graphs stays below both.
constexpr size_t kKeysMax = 1 << 20;
constexpr size_t kKeyBytesMax = 128 << 20;
constexpr size_t kBooksMax = 8192;  // receivers of one server, and their past incarnations
constexpr size_t kGapMax = 65536;   // requests may overtake each other by this many new keys
// Of all books together; a key takes about three times its text.
constexpr size_t kLibraryBytesMax = size_t{1} << 30;
constexpr size_t kPlaceBytes = sizeof(KeyPtr) + sizeof(std::string) + sizeof(Mark);
constexpr size_t kTextsOfKey = 3;  // here, whole in the parsed one, and what is parsed of it
constexpr absl::string_view kOutermost = "0:0";

TfStatus Wrong(uint64_t index, uint64_t count, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("a question for tensors cannot be read at want ", index + 1, " of ", count, ": ", what));
}

}  // namespace

KeyNames::KeyNames() : book_(SystemRandom64()) {}

void KeyNames::Begin(size_t count, std::string* head) {
  FUSEWIRE_DCHECK(count > 0);
  AppendFixed64(head, book_);
  AppendVarint(head, count);
  first_ = true;
}

const Mark& KeyNames::Append(absl::string_view full_key, int64_t step, std::string* head) {
  size_t end = full_key.rfind(';') + 1;
  absl::string_view key = full_key.substr(0, end), frame = full_key.substr(end);
  uint64_t number = 0;
  auto found = numbers_.find(key);
  if (found != numbers_.end()) {
    number = found->second;
  } else if (numbers_.size() < kKeysMax && bytes_ + key.size() <= kKeyBytesMax) {
    number = numbers_.size() + 1;
    numbers_.emplace(key, number);
    marks_.push_back(MarkReceive(key));
    bytes_ += key.size();
  }
  FUSEWIRE_DCHECK(number <= numbers_.size());
  bool says_key = number == 0 || number > known_;
  bool says_step = first_ || step != last_step_;
  bool says_frame = frame != kOutermost;
  AppendVarint(head, number << kFlagBits | (says_key ? kSaysKey : 0) | (says_step ? kSaysStep : 0) |
                         (says_frame ? kSaysFrame : 0));
  if (says_key) AppendText(head, key.data(), key.size());
  if (says_step) AppendFixed64(head, static_cast<uint64_t>(step));
  if (says_frame) AppendText(head, frame.data(), frame.size());
  if (number > said_) said_ = number;
  first_ = false;
  last_step_ = step;
  FUSEWIRE_DCHECK(number < marks_.size());
  return marks_[number];
}

void KeyNames::Forget() {
  book_ = SystemRandom64();
  numbers_.clear();
  marks_.resize(1);
  bytes_ = 0;
  said_ = known_ = 0;
}

bool KeyBook::Read(VarReader* reader, std::vector<Want>* wants, TfStatus* error) {
  MutexLock lock(mutex_);
  uint64_t count = 0;
  const Status counted = DecodeWantCount(reader, &count);
  if (!counted.ok()) {
    *error = absl::InvalidArgumentError(counted.cause());
    return true;
  }
  wants->reserve(static_cast<size_t>(count));
  int64_t step = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const WantHead want = DecodeWant(reader);
    const uint64_t number = want.number;
    if (want.says_step) step = want.step;
    const bool too_far = number > texts_.size() + kGapMax || number > kKeysMax;
    // An empty text marks a number without a key, so it can't be a key.
    const bool is_none = want.says_key ? want.key.empty() : number == 0;
    if (!reader->ok()) {
      *error = Wrong(i, count, "it is cut off");
    } else if (too_far) {
      *error = Wrong(i, count, absl::StrCat("its key has number ", number, ", where ", texts_.size(), " are known"));
    } else if (is_none) {
      *error = Wrong(i, count, "it has neither a key nor the number of one");
    }
    if (!error->ok()) return true;
    if (!want.says_key && (number >= texts_.size() || texts_[number].empty())) return false;
    KeyPtr key;
    bool is_new = number != 0 && want.says_key && (number >= texts_.size() || texts_[number] != View(want.key));
    if (number == 0 || is_new || want.says_frame) {
      std::string text(number != 0 && !want.says_key ? absl::string_view(texts_[number]) : View(want.key));
      auto parse = [error](const std::string& full) -> KeyPtr {
        auto parsed = std::make_shared<tensorflow::Rendezvous::ParsedKey>();
        TfStatus status = tensorflow::Rendezvous::ParseKey(full, parsed.get());
        if (!status.ok()) *error = status;
        return parsed;
      };
      if (is_new) {
        KeyPtr parsed = parse(absl::StrCat(text, kOutermost));
        if (!error->ok()) return true;
        if (number >= texts_.size()) {
          bytes_ += (number + 1 - texts_.size()) * kPlaceBytes;
          texts_.resize(number + 1);
          keys_.resize(number + 1);
          marks_.resize(number + 1);
        }
        bytes_ += kTextsOfKey * text.size();
        bytes_ -= kTextsOfKey * texts_[number].size();
        marks_[number] = MarkProvide(text, *parsed);
        keys_[number] = std::move(parsed);
        texts_[number] = text;
      }
      key = want.says_frame ? parse(absl::StrCat(text, View(want.frame)))
                            : (number == 0 ? parse(absl::StrCat(text, kOutermost)) : keys_[number]);
      if (!error->ok()) return true;
    } else {
      key = keys_[number];
    }
    wants->push_back(Want{step, std::move(key), number < marks_.size() ? marks_[number] : Mark()});
  }
  return true;
}

KeyLibrary::BookPtr KeyLibrary::Find(uint64_t id) {
  MutexLock lock(mutex_);
  auto found = books_.find(id);
  if (found != books_.end()) {
    used_.splice(used_.begin(), used_, found->second.place);
    return found->second.book;
  }
  if (books_.size() >= kBooksMax) DropOldest();
  used_.push_front(id);
  auto book = std::make_shared<KeyBook>();
  books_.emplace(id, Entry{book, used_.begin(), 0});
  return book;
}

void KeyLibrary::DropOldest() {
  FUSEWIRE_CHECK(!used_.empty());
  FUSEWIRE_DCHECK(used_.size() == books_.size());
  auto oldest = books_.find(used_.back());
  FUSEWIRE_CHECK(oldest != books_.end());
  FUSEWIRE_DCHECK(oldest->second.bytes <= bytes_);
  bytes_ -= oldest->second.bytes;
  books_.erase(oldest);
  used_.pop_back();
}

// The receiver of a dropped book sends its keys again.
void KeyLibrary::Count(uint64_t id, size_t bytes) {
  MutexLock lock(mutex_);
  auto found = books_.find(id);
  if (found == books_.end()) return;
  bytes_ += bytes - found->second.bytes;
  found->second.bytes = bytes;
  while (bytes_ > kLibraryBytesMax && books_.size() > 1) DropOldest();
}

bool KeyLibrary::Read(ConstBytes head, std::vector<Want>* wants, TfStatus* error) {
  VarReader reader(head);
  uint64_t id = 0;
  const Status begun = DecodeBook(&reader, &id);
  if (!begun.ok()) {
    *error = absl::InvalidArgumentError(begun.cause());
    return true;
  }
  const BookPtr book = Find(id);
  const size_t before = book->bytes();
  const bool known = book->Read(&reader, wants, error);
  if (book->bytes() != before) Count(id, book->bytes());
  return known;
}

}  // namespace fusewire::tf
