// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/frame_writer.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"

namespace fusewire::pipe {
namespace {

std::string Offered(OutQueue* queue, size_t parts_max = 64, size_t bytes_max = SIZE_MAX) {
  std::vector<ConstBytes> parts(parts_max);
  size_t count = queue->Offer(parts.data(), parts_max, bytes_max);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += parts[i].ToString();
  return bytes;
}

// The bytes that would be offered if none had been yet.
std::string Gathered(OutQueue* queue, size_t parts_max = 64, size_t bytes_max = SIZE_MAX) {
  queue->TakeBackOffers();
  return Offered(queue, parts_max, bytes_max);
}

void Append(OutQueue* queue, const std::string& text) { CopyBytes(queue->Append(text.size()), text); }

TEST(OutQueue, GathersWhatWasAppendedInOrder) {
  OutQueue queue;
  std::string large(5000, 'x');
  Append(&queue, "one ");
  Append(&queue, "two ");
  queue.AppendReference(large);
  Append(&queue, " three");
  EXPECT_EQ(queue.bytes(), 5014u);
  EXPECT_EQ(Gathered(&queue), "one two " + large + " three");
  EXPECT_EQ(Gathered(&queue, 1), "one two ");  // small things stand side by side
  EXPECT_EQ(Gathered(&queue, 64, 10), "one two xx");
  queue.Written(4);
  EXPECT_EQ(Gathered(&queue), "two " + large + " three");
  queue.Written(5004);
  EXPECT_EQ(Gathered(&queue), " three");
  EXPECT_FALSE(queue.empty());
  queue.Written(6);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(Gathered(&queue), "");
}

TEST(OutQueue, OffersWhatFollowsWhileTheNetworkHasSome) {
  OutQueue queue;
  std::string large(5000, 'x');
  Append(&queue, "one ");
  queue.AppendReference(large);
  EXPECT_EQ(Offered(&queue, 64, 10), "one xxxxxx");
  EXPECT_EQ(Offered(&queue, 64, 4000), large.substr(0, 4000));
  EXPECT_EQ(queue.bytes(), 5004u);
  queue.Written(10);
  Append(&queue, " two");
  EXPECT_EQ(Offered(&queue), large.substr(0, 994).append(" two"));
  EXPECT_EQ(Offered(&queue), "");
  queue.Written(4000);
  queue.TakeBackOffers();
  queue.Written(500);
  EXPECT_EQ(Offered(&queue), large.substr(0, 494).append(" two"));
  queue.Written(498);
  EXPECT_TRUE(queue.empty());
  Append(&queue, "three");
  EXPECT_EQ(Offered(&queue), "three");
}

TEST(OutQueue, ReferencesAreNotCopied) {
  OutQueue queue;
  std::string large(1 << 20, 'x');
  queue.AppendReference(large);
  ConstBytes part;
  ASSERT_EQ(queue.Offer(&part, 1, SIZE_MAX), 1u);
  EXPECT_EQ(part.data, reinterpret_cast<const uint8_t*>(large.data()));
  EXPECT_EQ(part.size, large.size());
}

TEST(OutQueue, TellsTheEndWhenTheLastByteIsWritten) {
  OutQueue queue;
  std::vector<std::string> told;
  Append(&queue, "12345");
  queue.AppendEnd(Buffers(), [&told](Status status) { told.push_back("first " + status.ToString()); });
  queue.AppendEnd(Buffers(), nullptr);
  Append(&queue, "6");
  queue.AppendEnd(Buffers(), [&told](Status status) { told.push_back("second " + status.ToString()); });
  queue.Written(4);
  EXPECT_TRUE(told.empty());
  queue.Written(1);
  EXPECT_EQ(told, std::vector<std::string>({"first ok"}));
  queue.Fail(Status::Unavailable("gone"));
  EXPECT_EQ(told, std::vector<std::string>({"first ok", "second unavailable: gone"}));
  EXPECT_TRUE(queue.empty());
  queue.Fail(Status::Unavailable("again"));
  EXPECT_EQ(told.size(), 2u);
}

TEST(OutQueue, AnEndWithNothingBeforeItIsToldWithTheNextBytes) {
  OutQueue queue;
  int told = 0;
  queue.AppendEnd(Buffers(), [&told](Status) { ++told; });
  Append(&queue, "x");
  queue.Written(0);  // the network took nothing
  EXPECT_EQ(told, 1);
}

TEST(OutQueue, AnEndMayAppendMore) {
  OutQueue queue;
  int told = 0;
  Append(&queue, "x");
  queue.AppendEnd(Buffers(), [&](Status) {
    Append(&queue, "yz");
    queue.AppendEnd(Buffers(), [&](Status) { ++told; });
  });
  queue.Written(1);
  EXPECT_EQ(Gathered(&queue), "yz");
  EXPECT_EQ(told, 0);
  queue.Written(2);
  EXPECT_EQ(told, 1);
}

TEST(OutQueue, KeepsToItsMemoryInSteadyTraffic) {
  OutQueue queue;
  std::set<const uint8_t*> used;
  for (int i = 0; i < 10000; ++i) {
    Bytes room = queue.Append(100);
    used.insert(room.data);
    queue.Written(100);
  }
  EXPECT_EQ(used.size(), 1u);  // the block is empty again each time
  // The same when it is never empty: what is written is given back.
  Append(&queue, "x");
  size_t before = mallinfo2().uordblks;  // 0 under a sanitizer: its allocator does not report it
  for (int i = 0; i < 10000; ++i) {
    queue.Append(100);
    queue.Written(100);
  }
  EXPECT_LE(mallinfo2().uordblks, before + 64 * 1024);
  queue.Written(1);
  queue.Trim();
  Append(&queue, "still works");
  EXPECT_EQ(Gathered(&queue), "still works");
}

// ---- against a model ----

struct Owned {
  std::unique_ptr<std::string> bytes;
  int released = 0;
};

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  void Run() {
    for (int step = 0; step < 2000 && !testing::Test::HasFatalFailure(); ++step) {
      switch (random_.Below(6)) {
        case 0: AppendSmall(); break;
        case 1: AppendReferenced(); break;
        case 2: AppendEnd(); break;
        case 3: queue_.Trim(); break;
        default: Write(); break;
      }
      ASSERT_EQ(queue_.bytes(), expected_.size() - written_);
    }
    AppendEnd();
    if (random_.Chance(0.5)) {
      while (!queue_.empty()) Write();
      queue_.Written(0);
    } else {
      failed_ = true;
      queue_.Fail(Status::Unavailable("gone"));
    }
    ASSERT_EQ(ends_told_, ends_.size());
    for (const auto& owned : owned_) ASSERT_EQ(owned->released, 1);
  }

 private:
  struct End {
    size_t position;
    std::vector<Owned*> owned;
  };

  std::string Text() {
    size_t size = 1 + random_.Below(uint64_t{1} << random_.Below(18));
    std::string text(size, 0);
    for (char& byte : text) byte = static_cast<char>(random_.Next());
    return text;
  }

  void AppendSmall() {
    std::string text = Text().substr(0, 20000);
    Append(&queue_, text);
    expected_ += text;
  }

  // One segment, appended in pieces as chunks are.
  void AppendReferenced() {
    owned_.push_back(std::make_unique<Owned>());
    Owned* owned = owned_.back().get();
    owned->bytes = std::make_unique<std::string>(Text());
    expected_ += *owned->bytes;
    ConstBytes left(*owned->bytes);
    while (!left.empty()) {
      size_t part = 1 + random_.Below(left.size);
      queue_.AppendReference(left.Sub(0, part));
      left = left.From(part);
    }
    waiting_.push_back(owned);
  }

  void AppendEnd() {
    Buffers owners;
    for (Owned* owned : waiting_) {
      Bytes bytes(owned->bytes->data(), owned->bytes->size());
      owners.push_back(Buffer::Wrap(bytes, owned, [](void* owner, Bytes) {
        auto* released = static_cast<Owned*>(owner);
        ++released->released;
        released->bytes.reset();  // the address sanitizer finds who still reads it
      }));
    }
    size_t index = ends_.size();
    ends_.push_back({expected_.size(), std::exchange(waiting_, {})});
    queue_.AppendEnd(std::move(owners), [this, index](Status status) { OnEnd(index, status); });
  }

  void OnEnd(size_t index, const Status& status) {
    ASSERT_EQ(index, ends_told_);  // in order
    ++ends_told_;
    ASSERT_EQ(status.ok(), !failed_);
    ASSERT_TRUE(failed_ || written_ >= ends_[index].position);
    for (const Owned* owned : ends_[index].owned) ASSERT_EQ(owned->released, 1);  // before the event
  }

  // Up to three offers under way; only the last may be taken in part.
  void Write() {
    const bool whole = random_.Chance(0.5);
    if (offers_.size() == 3 || (!offers_.empty() && whole)) return Answer(true);
    std::vector<ConstBytes> parts(random_.Between(1, 64));
    size_t at = written_;
    for (const size_t offer : offers_) at += offer;
    size_t count = queue_.Offer(parts.data(), parts.size(), random_.Between(1, 1 << 20));
    size_t offered = 0;
    for (size_t i = 0; i < count; ++i) {
      ASSERT_GT(parts[i].size, 0u);
      ASSERT_EQ(std::memcmp(parts[i].data, expected_.data() + at + offered, parts[i].size), 0);
      offered += parts[i].size;
    }
    if (count > 0) offers_.push_back(offered);
    if (offers_.size() == 1 && random_.Chance(0.5)) Answer(random_.Chance(0.4));
  }

  void Answer(bool whole) {
    const size_t offered = offers_.front();
    offers_.pop_front();
    const size_t taken = whole ? offered : random_.Below(offered + 1);
    if (offers_.empty()) queue_.TakeBackOffers();
    written_ += taken;
    queue_.Written(taken);
  }

  Random random_;
  OutQueue queue_;
  std::string expected_;
  size_t written_ = 0;
  std::deque<size_t> offers_;  // unanswered
  std::vector<std::unique_ptr<Owned>> owned_;
  std::vector<Owned*> waiting_;  // for the next end
  std::vector<End> ends_;
  size_t ends_told_ = 0;
  bool failed_ = false;
};

TEST(OutQueue, GivesEachByteAndEachBufferOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed);
    ASSERT_NO_FATAL_FAILURE(model.Run());
  }
}

}  // namespace
}  // namespace fusewire::pipe
