// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/reactor.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <thread>

#include "fusewire/base/check.h"
#include "fusewire/reactor/cpus.h"
#include "fusewire/reactor/reactor_impl.h"

namespace fusewire {
namespace reactor {
namespace {

// How often a loop that is busy with mail or with one descriptor asks epoll for the others: once in so many looks.
constexpr int kLooksPerPoll = 64;
// A look costs less than asking for the time.
constexpr int kLooksPerClock = 4;
// Likewise, where others run between two looks.
constexpr int kLooksPerYield = 2;
// Who lets others run may do so for longer than who does not.
constexpr int kYieldsPerSpin = 4;

class TaskMail final : public Mail {
 public:
  explicit TaskMail(Task task) : task_(std::move(task)) {}
  void Deliver() override {
    Task task = std::move(task_);
    delete this;
    task();
  }

 private:
  Task task_;
};

}  // namespace

thread_local constinit Reactor* current_home = nullptr;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Rounded up: waking early would turn the loop for nothing.
int TimeoutMs(int64_t now_ns, int64_t until_ns) {
  if (until_ns == kForeverNs) return -1;
  if (until_ns <= now_ns) return 0;
  return static_cast<int>(std::min<int64_t>((until_ns - now_ns + kMillisecondNs - 1) / kMillisecondNs, INT_MAX));
}

void WriteEvent(int fd) {
  uint64_t one = 1;
  ssize_t written = write(fd, &one, sizeof(one));
  (void)written;  // full means that it is readable already
}

void ReadEvent(int fd) {
  uint64_t count = 0;
  ssize_t got = read(fd, &count, sizeof(count));
  (void)got;  // empty means that somebody else was faster
}

Reactor::Reactor(const Options& options, Clock* clock)
    : options_(options), clock_(clock), now_ns_(clock->NowNs()), timers_(now_ns_) {
  int64_t spin_ns_max =
      UsableCpuCount() < 2 ? 0 : options.spin_ns_max;  // alone on a processor, spinning delays the peer
  impl_ = std::make_unique<Impl>(spin_ns_max);
  impl_->yield_ns_max = kYieldsPerSpin * options.spin_ns_max;
}

std::unique_ptr<Reactor> Reactor::MakeManual(Clock* clock) {
  Options options;
  options.name = "manual";
  return std::unique_ptr<Reactor>(new Reactor(options, clock));
}

Result<std::unique_ptr<Reactor>> Reactor::Start(const Options& options) {
  std::unique_ptr<Reactor> reactor(new Reactor(options, Clock::Real()));
  Impl& impl = *reactor->impl_;
  impl.inner = epoll_create1(EPOLL_CLOEXEC);
  impl.outer = epoll_create1(EPOLL_CLOEXEC);
  impl.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  impl.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (impl.inner < 0 || impl.outer < 0 || impl.wake_fd < 0 || impl.kick_fd < 0) {
    return Status::FromErrno(Code::kOverloaded, "epoll_create1 or eventfd", errno)
        .Phase("start reactor " + options.name)
        .Next("raise the limit of open files (ulimit -n)");
  }
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<uint64_t>(impl.wake_fd);
  FUSEWIRE_CHECK(epoll_ctl(impl.inner, EPOLL_CTL_ADD, impl.wake_fd, &event) == 0);
  event.data.u64 = static_cast<uint64_t>(impl.kick_fd);
  FUSEWIRE_CHECK(epoll_ctl(impl.outer, EPOLL_CTL_ADD, impl.kick_fd, &event) == 0);
  event.events = 0;
  event.data.u64 = static_cast<uint64_t>(impl.inner);
  FUSEWIRE_CHECK(epoll_ctl(impl.outer, EPOLL_CTL_ADD, impl.inner, &event) == 0);
  impl.place.store(kAtOuter);  // a caller may be faster than the thread: then it is told as if it were parked
  int error = pthread_create(&impl.thread, nullptr, &Reactor::ThreadEntry, reactor.get());
  if (error != 0) {
    impl.place.store(kNoThread);
    return Status::FromErrno(Code::kOverloaded, "pthread_create", error)
        .Phase("start reactor " + options.name)
        .Next("raise the limit of processes and threads (ulimit -u), or of memory");
  }
  impl.thread_started = true;
  return reactor;
}

Reactor::~Reactor() {
  Close();
  Join();
  if (TryEnter()) {
    Turn();
    impl_->residents.clear();
    impl_->doorbell.reset();
    Leave();
  }
  for (int fd : {impl_->inner, impl_->outer, impl_->wake_fd, impl_->kick_fd}) {
    if (fd >= 0) close(fd);
  }
}

bool Reactor::AtHome() const { return current_home == this; }

bool Reactor::InsideAny() { return current_home != nullptr; }

Stats Reactor::Snapshot() const {
  Stats stats;
  stats.turns = impl_->turns.Read();
  stats.parks = impl_->parks.Read();
  stats.spin_hits = impl_->spin_hits.Read();
  stats.spin_misses = impl_->spin_misses.Read();
  stats.wakes = impl_->wakes.load(std::memory_order_relaxed);
  stats.mails = impl_->mails.Read();
  stats.drives = impl_->drives.Read();
  stats.watched = impl_->watches.Read();
  return stats;
}

// ---- the mailbox ----

void Reactor::Wake() {
  if (!impl_->sleeping.exchange(false, std::memory_order_seq_cst)) return;
  impl_->wakes.fetch_add(1, std::memory_order_relaxed);
  if (impl_->wake_fd >= 0) WriteEvent(impl_->wake_fd);
  if (impl_->guards.load(std::memory_order_seq_cst)) WriteEvent(impl_->kick_fd);  // it does not hear of the other
}

void Reactor::Post(Mail* mail) {
  if (impl_->mailbox.Push(mail)) Wake();
  if (!impl_->ended.load(std::memory_order_seq_cst)) return;
  // The thread is gone: the sender delivers, so that no Done is lost. From another home he steps over for a moment.
  // Somebody who is inside already finds the mail when he leaves.
  if (AtHome()) return;
  Reactor* own_home = std::exchange(current_home, nullptr);
  if (TryEnter()) {
    Turn();
    Leave();
  }
  current_home = own_home;
}

void Reactor::Post(Task task) { Post(new TaskMail(std::move(task))); }

// ---- the doorbell ----

Result<Doorbell*> Reactor::OpenDoorbell() {
  FUSEWIRE_AT_HOME(*this);
  if (impl_->doorbell == nullptr) {
    Result<std::unique_ptr<Doorbell>> made = Doorbell::Make(*this);
    if (!made.ok()) return made.status();
    impl_->doorbell = std::move(made).value();
    impl_->doorbell_event.store(impl_->doorbell->files().event, std::memory_order_seq_cst);
  }
  return impl_->doorbell.get();
}

bool Reactor::AnswerDoorbell() { return impl_->doorbell != nullptr && impl_->doorbell->Answer(); }

// A thread has taken events out of epoll and cannot come in. Epoll tells again of what is watched for as long as it
// lasts; of the doorbell it tells once, and whoever is inside may be asleep already.
void Reactor::PassOn(int count, const void* events) {
  const int doorbell_event = impl_->doorbell_event.load(std::memory_order_seq_cst);
  const auto* event = static_cast<const epoll_event*>(events);
  for (int i = 0; i < count && doorbell_event >= 0; ++i) {
    if (static_cast<int>(event[i].data.u64 & UINT32_MAX) == doorbell_event) WriteEvent(doorbell_event);
  }
}

// Whoever is at home says so before he looks whether there is anything left to do, and takes it back when he stays.
void Reactor::SetSleeping(bool sleeping) {
  impl_->sleeping.store(sleeping, std::memory_order_seq_cst);
  if (impl_->doorbell != nullptr) impl_->doorbell->SetAsleep(sleeping);
}

// Mail, of either kind: what others left for us in this process, or in memory that we share with another.
bool Reactor::HasMail() const {
  return !impl_->mailbox.empty() || (impl_->doorbell != nullptr && impl_->doorbell->rung());
}

// ---- a turn: the whole system's order ----

bool Reactor::Turn() {
  impl_->turns.Add();
  int mails = impl_->mailbox.DeliverAll();
  impl_->mails.Add(static_cast<uint64_t>(mails));
  int fired = timers_.Advance(now_ns_);
  bool flushed = HasOutput();
  FlushAll();
  return mails > 0 || fired > 0 || flushed;
}

void Reactor::FlushAll() {
  List<Flushable> now;
  now.TakeAll(&to_flush_);
  while (Flushable* flushable = now.PopFront()) flushable->Flush();
  now.TakeAll(&to_flush_last_);
  while (Flushable* flushable = now.PopFront()) flushable->Flush();
}

bool Reactor::RunManually() {
  FUSEWIRE_CHECK(impl_->inner < 0);
  if (!TryEnter()) return false;
  bool busy = Turn();
  Leave();
  return busy;
}

bool Reactor::TakeFds(int count, void* events) {
  Impl& impl = *impl_;
  const auto* event = static_cast<const epoll_event*>(events);
  bool any = false;
  for (int i = 0; i < count; ++i) {
    auto fd = static_cast<size_t>(event[i].data.u64 & UINT32_MAX);
    auto generation = static_cast<uint32_t>(event[i].data.u64 >> 32);
    if (generation == 0) {
      ReadEvent(impl.wake_fd);
      continue;
    }
    any = true;
    // A handler of the same batch may have unwatched this one; its descriptor may even have been reused.
    if (fd < impl.watched.size() && impl.watched[fd].handler != nullptr && impl.watched[fd].generation == generation) {
      impl.watched[fd].handler->OnEvents(event[i].events);
    }
  }
  return any;
}

// The kernel interrupts a thread whose ring has news, before epoll knows of them: then the hot one is asked.
void Reactor::AfterPark(int count, void* events) {
  if (count != 0) impl_->spin.Parked(now_ns_ - impl_->idle_since_ns);
  if (count > 0) TakeFds(count, events);
  if (count < 0 && hot_ != nullptr) hot_->PollNow();
}

bool Reactor::PollFds() {
  impl_->looks_since_poll = 0;
  epoll_event events[kEventsPerPoll];
  int count = epoll_wait(impl_->inner, events, kEventsPerPoll, 0);
  return count > 0 && TakeFds(count, events);
}

// True if the loop has to turn again before anybody may park. Among mail without end, input and time have their turn
// too.
bool Reactor::MoreToDo() {
  if (!HasMail() && !HasOutput()) return false;
  now_ns_ = clock_->NowNs();
  AnswerDoorbell();
  if (impl_->inner >= 0 && ++impl_->looks_since_poll >= kLooksPerPoll) PollFds();
  return true;
}

// Looks for work without parking, until until_ns or for as long as the learner thinks that it pays.
// True if the loop should turn again instead of parking.
bool Reactor::Spin(int64_t until_ns) {
  Impl& impl = *impl_;
  // Here, not when something has come: then somebody waits for what follows from it.
  now_ns_ = clock_->NowNs();
  impl.idle_since_ns = now_ns_;
  const bool learns = impl.idling == Idling::kLearned, yields = impl.idling == Idling::kYields;
  int64_t budget_ns = options_.busy_poll ? kForeverNs
                      : learns           ? impl.spin.NextSpinNs()
                      : yields           ? impl.yield_ns_max
                                         : impl.spin_ns_max;
  if (budget_ns == 0) return false;
  int64_t began_ns = now_ns_;
  if (impl.doorbell != nullptr) impl.doorbell->BeginWatching();
  int64_t end_ns = std::min(until_ns, std::min(timers_.NextNs(), AddNs(began_ns, budget_ns)));
  for (int looks = 1;; ++looks) {
    bool hit = !impl.mailbox.empty();
    if (AnswerDoorbell()) hit = true;
    if (!hit && hot_ != nullptr) hit = hot_->PollNow();
    // Also when the hot one has something each time: the others have their turn too.
    bool ask_all = ++impl.looks_since_poll >= (yields ? kLooksPerYield : kLooksPerPoll) || (!hit && hot_ == nullptr);
    if (ask_all && PollFds()) hit = true;
    if (hit) {
      impl.spin_hits.Add();
      if (learns) impl.spin.Hit(now_ns_ - began_ns);
      return true;
    }
    bool wanted =
        impl.callers_waiting.load(std::memory_order_relaxed) > 0 || impl.closing.load(std::memory_order_relaxed);
    if (wanted && !impl.ended.load(std::memory_order_relaxed)) return options_.busy_poll;
    if (looks % kLooksPerClock == 0) now_ns_ = clock_->NowNs();
    if (now_ns_ >= end_ns) break;
    if (yields) {
      sched_yield();
    } else {
      Pause();
    }
  }
  bool in_vain = now_ns_ - began_ns >= budget_ns;
  if (!in_vain) return true;  // a timer or the caller's deadline is due
  impl.spin_misses.Add();
  if (learns) impl.spin.Miss();
  return false;
}

// ---- descriptors ----

Status Reactor::Watch(int fd, uint32_t events, FdHandler* handler) {
  FUSEWIRE_AT_HOME(*this);
  Impl& impl = *impl_;
  if (impl.inner < 0) return Status::Invalid("a manual reactor watches no descriptors");
  auto index = static_cast<size_t>(fd);
  if (impl.watched.size() <= index) impl.watched.resize(index + 1);
  FUSEWIRE_CHECK(impl.watched[index].handler == nullptr);
  if (++impl.generations == 0) ++impl.generations;  // 0 stands for the wake-up descriptor
  epoll_event event = {};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(impl.generations) << 32 | static_cast<uint32_t>(fd);
  if (epoll_ctl(impl.inner, EPOLL_CTL_ADD, fd, &event) != 0) {
    return Status::FromErrno(Code::kOverloaded, "epoll_ctl", errno)
        .Phase("watch a descriptor")
        .Next("raise fs.epoll.max_user_watches or use fewer connections");
  }
  impl.watched[index].handler = handler;
  impl.watched[index].generation = impl.generations;
  impl.watches.Add();
  return Status::Ok();
}

void Reactor::Rewatch(int fd, uint32_t events, FdHandler* handler) {
  FUSEWIRE_AT_HOME(*this);
  Impl::Watched& watched = impl_->watched[static_cast<size_t>(fd)];
  FUSEWIRE_CHECK(watched.handler == handler);
  epoll_event event = {};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(watched.generation) << 32 | static_cast<uint32_t>(fd);
  FUSEWIRE_CHECK(epoll_ctl(impl_->inner, EPOLL_CTL_MOD, fd, &event) == 0);
}

void Reactor::Unwatch(int fd, FdHandler* handler) {
  FUSEWIRE_AT_HOME(*this);
  Impl::Watched& watched = impl_->watched[static_cast<size_t>(fd)];
  FUSEWIRE_CHECK(watched.handler == handler);
  FUSEWIRE_CHECK(epoll_ctl(impl_->inner, EPOLL_CTL_DEL, fd, nullptr) == 0);
  watched.handler = nullptr;
  ForgetHot(handler);
  impl_->watches.Set(impl_->watches.Read() - 1);
}

// ---- residents ----

Resident* Reactor::resident(const void* key) const {
  FUSEWIRE_AT_HOME(*this);
  auto found = impl_->residents.find(key);
  return found == impl_->residents.end() ? nullptr : found->second.get();
}

void Reactor::Keep(const void* key, std::unique_ptr<Resident> resident) {
  FUSEWIRE_AT_HOME(*this);
  FUSEWIRE_CHECK(impl_->residents.emplace(key, std::move(resident)).second);
}

// ---- the end ----

void Reactor::Close() {
  impl_->closing.store(true, std::memory_order_seq_cst);
  if (impl_->wake_fd < 0) return;
  WriteEvent(impl_->wake_fd);
  WriteEvent(impl_->kick_fd);
}

void Reactor::Join() {
  FUSEWIRE_CHECK(!AtHome());
  if (std::exchange(impl_->thread_started, false)) FUSEWIRE_CHECK(pthread_join(impl_->thread, nullptr) == 0);
}

}  // namespace reactor
}  // namespace fusewire
