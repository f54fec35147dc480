// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: a courier between threads of one process. A send ends when its receiver has copied the bytes.
// Home: each rank's end belongs to one thread; the post office is shared. Owns: what is in flight. Fails: at deadlines,
// and where sizes differ.
#ifndef FUSEWIRE_COLLECTIVE_LOCAL_COURIER_TEST_H_
#define FUSEWIRE_COLLECTIVE_LOCAL_COURIER_TEST_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/collective/wire.h"

namespace fusewire {
namespace collective {

class PostOffice {
 public:
  class Slip {
   public:
    int from = 0, to = 0;
    bool sends = false;
    ConstBytes source;
    Bytes target;
    Done done;
    Status status;
  };

  std::mutex mutex;
  std::condition_variable moved;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Slip>>> sends, receives;
  std::map<int, std::deque<std::shared_ptr<Slip>>> ended;  // of each rank, for its own thread
};

class LocalCourier final : public Courier {
 public:
  LocalCourier(PostOffice* office, int rank) : office_(office), rank_(rank) {}

  void Send(int peer, ConstBytes bytes, Done done) override {
    auto slip = std::make_shared<PostOffice::Slip>();
    slip->from = rank_;
    slip->to = peer;
    slip->sends = true;
    slip->source = bytes;
    slip->done = std::move(done);
    Put(std::move(slip));
  }
  void Receive(int peer, Bytes into, Done done) override {
    auto slip = std::make_shared<PostOffice::Slip>();
    slip->from = peer;
    slip->to = rank_;
    slip->target = into;
    slip->done = std::move(done);
    Put(std::move(slip));
  }
  Status Progress(int64_t deadline_ns) override {
    std::unique_lock<std::mutex> lock(office_->mutex);
    auto& ended = office_->ended[rank_];
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::nanoseconds(std::max<int64_t>(deadline_ns - Clock::Real()->NowNs(), 0));
    if (!office_->moved.wait_until(lock, until, [&ended] { return !ended.empty(); })) {
      return Status::Timeout("nothing came").Phase("waiting for messages");
    }
    std::deque<std::shared_ptr<PostOffice::Slip>> mine = std::exchange(ended, {});
    lock.unlock();
    for (const auto& slip : mine) slip->done(slip->status);
    return Status::Ok();
  }
  void CancelAll(const Status& why) override {
    std::unique_lock<std::mutex> lock(office_->mutex);
    std::deque<std::shared_ptr<PostOffice::Slip>> mine = std::exchange(office_->ended[rank_], {});
    for (auto& [pair, queue] : office_->sends) {
      if (pair.first == rank_) mine.insert(mine.end(), queue.begin(), queue.end()), queue.clear();
    }
    for (auto& [pair, queue] : office_->receives) {
      if (pair.second == rank_) mine.insert(mine.end(), queue.begin(), queue.end()), queue.clear();
    }
    lock.unlock();
    for (const auto& slip : mine) slip->done(slip->status.ok() ? why : slip->status);
  }

 private:
  void Put(std::shared_ptr<PostOffice::Slip> slip) {
    const std::lock_guard<std::mutex> lock(office_->mutex);
    const std::pair<int, int> pair(slip->from, slip->to);
    (slip->sends ? office_->sends : office_->receives)[pair].push_back(slip);
    auto& sends = office_->sends[pair];
    auto& receives = office_->receives[pair];
    if (sends.empty() || receives.empty()) return;
    const auto sent = sends.front();
    const auto landed = receives.front();
    sends.pop_front();
    receives.pop_front();
    if (sent->source.size == landed->target.size) {
      CopyPayload(landed->target.data, sent->source.data, sent->source.size);
    } else {
      landed->status = Status::Corrupt("a message of another size");
    }
    office_->ended[sent->from].push_back(sent);
    office_->ended[landed->to].push_back(landed);
    office_->moved.notify_all();
  }

  PostOffice* const office_;
  const int rank_;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_LOCAL_COURIER_TEST_H_
