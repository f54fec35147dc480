// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/resolver.h"

#include <netdb.h>
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace transport {
namespace {

// All addresses, also of a family that no interface has but loopback (no AI_ADDRCONFIG): on a host whose own address is
// of IPv6 only, 127.0.0.1 may still be where the peer listens. One that cannot be reached fails at once.
Names AskSystem(const std::string& host) {
  // Whoever listens there has not asked the system either: see WhereToListen.
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
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Question> questions;
  bool started = false;
  bool closed = false;
  bool posting = false;  // the thread is giving an answer to a reactor, which has to live until it has
  pthread_t thread = {};
  ResolveNames resolve;

  void Run() {
    pthread_setname_np(pthread_self(), "fusewire/names");
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return closed || !questions.empty(); });
      if (closed) return;
      Question question = std::move(questions.front());
      questions.pop_front();
      lock.unlock();
      Names names = resolve ? resolve(question.host) : AskSystem(question.host);
      lock.lock();
      if (closed) return;
      posting = true;
      lock.unlock();
      // Not under the lock: a reactor that has ended delivers on this thread, and the answer may come back to us.
      Answer(std::move(question), std::move(names));
      lock.lock();
      posting = false;
      changed.notify_all();
    }
  }

  static void Answer(Question question, Names names) {
    question.home->Post(
        [answer = std::move(question.answer), names = std::move(names)]() mutable { answer(std::move(names)); });
  }
};

Resolver::Resolver(ResolveNames resolve) : work_(std::make_shared<Work>()) { work_->resolve = std::move(resolve); }

Resolver::~Resolver() {
  std::unique_lock<std::mutex> lock(work_->mutex);
  work_->closed = true;
  work_->questions.clear();
  work_->changed.notify_all();
  // A post is short. If we are ended by the answer itself, there is nothing to wait for.
  work_->changed.wait(lock, [this] { return !work_->posting || pthread_equal(work_->thread, pthread_self()) != 0; });
}

void Resolver::Resolve(const std::string& host, reactor::Reactor& home, UniqueFunction<void(Names)> answer) {
  std::unique_lock<std::mutex> lock(work_->mutex);
  int error = work_->started ? 0 : StartThread();
  if (error == 0) {
    work_->started = true;
    work_->questions.push_back({host, &home, std::move(answer)});
    work_->changed.notify_one();
    return;
  }
  lock.unlock();
  Work::Answer({host, &home, std::move(answer)}, Status::FromErrno(Code::kOverloaded, "pthread_create", error)
                                                     .Phase("resolve " + host)
                                                     .Next("raise the limit of processes and threads (ulimit -u)"));
}

int Resolver::StartThread() {
  // shared_ptr: the thread holds the work for as long as it runs.
  auto held = std::make_unique<std::shared_ptr<Work>>(work_);
  int error = pthread_create(
      &work_->thread, nullptr,
      [](void* argument) -> void* {
        // shared_ptr: as above.
        std::unique_ptr<std::shared_ptr<Work>> work(static_cast<std::shared_ptr<Work>*>(argument));
        (*work)->Run();
        return nullptr;
      },
      held.get());
  if (error != 0) return error;
  (void)held.release();  // the thread's now
  FUSEWIRE_CHECK(pthread_detach(work_->thread) == 0);
  return 0;
}

}  // namespace transport
}  // namespace fusewire
