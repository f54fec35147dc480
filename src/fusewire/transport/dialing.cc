// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/dialing.h"

#include <netdb.h>

#include <deque>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/mutex.h"

namespace fusewire::transport {
namespace {

// All addresses, also of a family that no interface has but loopback (no AI_ADDRCONFIG): on a host whose own address is
// of IPv6 only, 127.0.0.1 may still be where the peer listens. An address that cannot be reached fails at once.
Names AskSystem(const std::string& host) {
  // A listener does not ask the system's resolver either: see WhereToListen.
  if (host == "localhost") return std::vector<std::string>{"127.0.0.1", "::1"};
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return Status::Unavailable("the name does not resolve: " + std::string(gai_strerror(error)))
        .Phase("resolve " + host)
        .Next("check the name and this host's name service");
  }
  std::vector<std::string> numbers;
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    char text[64];
    if (getnameinfo(it->ai_addr, it->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0)
      numbers.emplace_back(text);
  }
  freeaddrinfo(found);
  return numbers;
}

}  // namespace

struct Resolver::Work {
  struct Question {
    std::string host;
    reactor::Reactor* home;
    UniqueFunction<void(Names)> answer;
  };
  Mutex mutex;
  CondVar changed;
  std::deque<Question> questions FUSEWIRE_GUARDED_BY(mutex);
  bool started FUSEWIRE_GUARDED_BY(mutex) = false;
  bool closed FUSEWIRE_GUARDED_BY(mutex) = false;
  // The thread is delivering an answer to a reactor, which must live until then.
  bool posting FUSEWIRE_GUARDED_BY(mutex) = false;
  pthread_t thread FUSEWIRE_GUARDED_BY(mutex) = {};
  ResolveNames resolve;  // written before the thread begins

  void Run() {
    pthread_setname_np(pthread_self(), "fusewire/names");
    MutexLock lock(mutex);
    for (;;) {
      while (!closed && questions.empty()) changed.Wait(mutex);
      if (closed) return;
      Question question = std::move(questions.front());
      questions.pop_front();
      lock.Unlock();
      Names names = resolve ? resolve(question.host) : AskSystem(question.host);
      lock.Lock();
      if (closed) return;
      posting = true;
      lock.Unlock();
      // Not under the lock: a reactor that has ended delivers on this thread, and the answer may come back to us.
      Answer(std::move(question), std::move(names));
      lock.Lock();
      posting = false;
      changed.NotifyAll();
    }
  }

  static void Answer(Question question, Names names) {
    question.home->Post(
        [answer = std::move(question.answer), names = std::move(names)]() mutable { answer(std::move(names)); });
  }
};

Resolver::Resolver(ResolveNames resolve) : work_(std::make_shared<Work>()) { work_->resolve = std::move(resolve); }

Resolver::~Resolver() {
  MutexLock lock(work_->mutex);
  work_->closed = true;
  work_->questions.clear();
  work_->changed.NotifyAll();
  // A post is short. If the answer itself ends us, there is nothing to wait for.
  while (work_->posting && pthread_equal(work_->thread, pthread_self()) == 0) work_->changed.Wait(work_->mutex);
}

void Resolver::Resolve(const std::string& host, reactor::Reactor& home, UniqueFunction<void(Names)> answer) {
  MutexLock lock(work_->mutex);
  int error = work_->started ? 0 : StartThread(&work_->thread);
  if (error == 0) {
    work_->started = true;
    work_->questions.push_back({host, &home, std::move(answer)});
    work_->changed.NotifyOne();
    return;
  }
  lock.Unlock();
  Work::Answer({host, &home, std::move(answer)}, Status::FromErrno(Code::kOverloaded, "pthread_create", error)
                                                     .Phase("resolve " + host)
                                                     .Next("raise the limit of processes and threads (ulimit -u)"));
}

int Resolver::StartThread(pthread_t* thread) {
  // shared_ptr: the thread holds the work for as long as it runs.
  auto held = std::make_unique<std::shared_ptr<Work>>(work_);
  int error = pthread_create(
      thread, nullptr,
      [](void* argument) -> void* {
        // shared_ptr: as above.
        std::unique_ptr<std::shared_ptr<Work>> work(static_cast<std::shared_ptr<Work>*>(argument));
        (*work)->Run();
        return nullptr;
      },
      held.get());
  if (error != 0) return error;
  (void)held.release();  // the thread's now
  FUSEWIRE_CHECK(pthread_detach(*thread) == 0);
  return 0;
}

// ---- a dial ----

DialingInTurn::DialingInTurn(reactor::Reactor& home, Address address, OnDialed on_dialed)
    : home_(home),
      address_(std::move(address)),
      deadline_([this] {
        Finish(Status::Timeout("no connection" +
                               (last_error_.ok() ? std::string() : ", last error: " + last_error_.cause())));
      }),
      step_([this] { TryNext(); }),
      on_dialed_(std::move(on_dialed)),
      alive_(std::make_shared<bool>(true)) {}

DialingInTurn::~DialingInTurn() {
  FUSEWIRE_AT_HOME(home_);
  *alive_ = false;
  DialingInTurn::Drop();
}

void DialingInTurn::Start(Resolver* resolver, const std::string& host, int64_t timeout_ns) {
  FUSEWIRE_AT_HOME(home_);
  began_ns_ = home_.now_ns();
  home_.Arm(&deadline_, timeout_ns);
  SocketAddress numeric;
  if (ParseNumeric(host, address_.port, &numeric)) {
    OnNames(std::vector<std::string>{host});
    return;
  }
  resolver->Resolve(host, home_, [this, alive = alive_](const Names& names) {
    if (*alive) OnNames(names);
  });
}

Status DialingInTurn::Watch(uint32_t epoll_events) {
  FUSEWIRE_CHECK(!watched_);
  Status watched = home_.Watch(fd_.get(), epoll_events, this);
  watched_ = watched.ok();
  return watched;
}

void DialingInTurn::Drop() { TakeSocket().Close(); }

Fd DialingInTurn::TakeSocket() {
  if (std::exchange(watched_, false)) home_.Unwatch(fd_.get(), this);
  return std::move(fd_);
}

// The attempt is over: nothing but the callback follows.
OnDialed DialingInTurn::TakeCallback() {
  reactor::Reactor::Disarm(&deadline_);
  reactor::Reactor::Disarm(&step_);
  *alive_ = false;
  return std::move(on_dialed_);
}

void DialingInTurn::Succeed(std::unique_ptr<Connection> connection) {
  OnDialed on_dialed = TakeCallback();
  on_dialed(std::move(connection));
}

void DialingInTurn::Finish(Status why) {
  FUSEWIRE_CHECK(!why.ok());
  Drop();
  OnDialed on_dialed = TakeCallback();
  on_dialed(why.Peer(address_.ToString())
                .Phase("connect")
                .AgeMs((home_.now_ns() - began_ns_) / kMillisecondNs)
                .Next("check that the peer is running, and that its address and port are right"));
}

}  // namespace fusewire::transport
