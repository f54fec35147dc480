// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/answers.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::tf {
namespace {

Status Gone() { return Status::Application(kAnswerGone, "it ran, and its answer is not kept"); }

template <class Runs>
auto FindRun(Runs& runs, uint64_t number) {
  return std::find_if(runs.begin(), runs.end(), [number](const auto& run) { return run.number == number; });
}

KeptClient& JoinClient(std::map<uint64_t, KeptClient>* clients, uint64_t id, uint64_t open) {
  KeptClient& client = (*clients)[id];
  client.client = id;
  client.open = std::max(client.open, open);
  return client;
}

// Those that the client has answers of.
template <class Runs>
void DropBefore(Runs* runs, uint64_t open) {
  runs->erase(std::remove_if(runs->begin(), runs->end(), [open](const auto& run) { return run.number < open; }),
              runs->end());
}

}  // namespace

bool Answers::Begin(const Ticket& ticket, rpc::Reply* reply) {
  FUSEWIRE_DCHECK(ticket.number != 0);
  rpc::Reply before;
  Status refused;
  std::string head;
  Buffers body;
  {
    MutexLock lock(mutex_);
    auto found = clients_.find(ticket.client);
    if (found == clients_.end()) {
      if (clients_.size() >= kClientsMax || ticket.number - ticket.open >= kOpenMax) {
        refused = Status::Overloaded("more tickets than a part of a graph has room for");
      } else {
        found = clients_.emplace(ticket.client, Client()).first;
      }
    }
    if (refused.ok()) {
      Client& client = found->second;
      if (client.open < ticket.open) {
        client.open = ticket.open;
        DropBefore(&client.runs, ticket.open);
      }
      auto run = FindRun(client.runs, ticket.number);
      const bool is_new = run == client.runs.end() && ticket.number >= client.open;
      if (is_new && client.runs.size() < kOpenMax) {
        client.runs.emplace_back().number = ticket.number;
        return true;
      }
      if (is_new) {
        refused = Status::Overloaded("more runs of a part at the same time than it has room for");
      } else if (run == client.runs.end() || (run->has_ended && !run->is_kept)) {
        refused = Gone();
      } else if (!run->has_ended) {
        before = std::exchange(run->again, std::move(*reply));
      } else {
        head = run->head;
        for (const Buffer& segment : run->body) body.push_back(Buffer::CopyOf(ConstBytes(segment.bytes())));
      }
    }
  }
  if (before) before.Send(Status::Cancelled("it came again over another connection"));
  if (*reply) reply->Send(std::move(refused), head, std::move(body));
  return false;
}

void Answers::End(const Ticket& ticket, ConstBytes head, const Buffers& body, rpc::Reply* reply) {
  rpc::Reply before;
  MutexLock lock(mutex_);
  auto found = clients_.find(ticket.client);
  FUSEWIRE_CHECK(found != clients_.end());
  auto run = FindRun(found->second.runs, ticket.number);
  if (run == found->second.runs.end()) return;  // the worker does not wait for it any more
  FUSEWIRE_CHECK(!run->has_ended);
  run->has_ended = true;
  if (awaiting_ > 0) ended_.NotifyAll();
  if (run->again) before = std::exchange(*reply, std::move(run->again));
  run->is_kept = head.size + TotalBytes(body) <= kKeptBytesMax;
  if (run->is_kept) {
    run->head = head.ToString();
    for (const Buffer& segment : body) run->body.push_back(Buffer::CopyOf(ConstBytes(segment.bytes())));
  }
  lock.Unlock();
  if (before) before.Send(Status::Cancelled("it came again over another connection"));
}

bool Answers::AwaitEnds(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  std::vector<std::pair<uint64_t, uint64_t>> running;
  for (const auto& [id, client] : clients_) {
    for (const Run& run : client.runs) {
      if (!run.has_ended) running.emplace_back(id, run.number);
    }
  }
  ++awaiting_;
  bool is_in_time = true;
  while (is_in_time) {
    while (!running.empty() && HasEnded(running.back().first, running.back().second)) running.pop_back();
    if (running.empty()) break;
    is_in_time = ended_.WaitUntil(mutex_, deadline_ns);
  }
  --awaiting_;
  return running.empty();
}

bool Answers::HasEnded(uint64_t client, uint64_t number) {
  const std::vector<Run>& runs = clients_.at(client).runs;
  const auto run = FindRun(runs, number);
  return run == runs.end() || run->has_ended;
}

void Answers::Collect(std::map<uint64_t, KeptClient>* clients) {
  MutexLock lock(mutex_);
  for (const auto& [id, client] : clients_) {
    KeptClient& to = JoinClient(clients, id, client.open);
    for (const Run& run : client.runs) {
      if (!run.has_ended) continue;
      KeptRun kept{run.number, run.is_kept, run.head, {}};
      for (const Buffer& segment : run.body) kept.body.push_back(ConstBytes(segment.bytes()).ToString());
      to.runs.push_back(std::move(kept));
    }
  }
}

size_t Answers::kept() {
  MutexLock lock(mutex_);
  size_t sum = 0;
  for (const auto& client : clients_) sum += client.second.runs.size();
  return sum;
}

int Answers::awaiting() {
  MutexLock lock(mutex_);
  return awaiting_;
}

void RestoredAnswers::Set(std::vector<KeptClient> clients) {
  MutexLock lock(mutex_);
  for (KeptClient& client : clients) {
    if (!client.runs.empty()) clients_[client.client] = std::move(client);
  }
  has_any_ = !clients_.empty();
}

bool RestoredAnswers::Answer(const Ticket& ticket, rpc::Reply* reply) {
  if (!has_any_.load(std::memory_order_relaxed)) return false;
  KeptRun kept;
  {
    MutexLock lock(mutex_);
    auto found = clients_.find(ticket.client);
    if (found == clients_.end()) return false;
    KeptClient& client = found->second;
    client.open = std::max(client.open, ticket.open);
    DropBefore(&client.runs, ticket.open);
    auto run = FindRun(client.runs, ticket.number);
    const bool is_restored = run != client.runs.end();
    if (is_restored) kept = *run;
    if (client.runs.empty()) clients_.erase(found);
    if (clients_.empty()) has_any_ = false;
    if (!is_restored) return false;
  }
  Buffers body;
  for (const std::string& segment : kept.body) body.push_back(Buffer::CopyOf(ConstBytes(segment)));
  reply->Send(kept.is_kept ? Status::Ok() : Gone(), kept.head, std::move(body));
  return true;
}

void RestoredAnswers::Collect(std::map<uint64_t, KeptClient>* clients) {
  MutexLock lock(mutex_);
  for (const auto& [id, client] : clients_) {
    KeptClient& to = JoinClient(clients, id, client.open);
    to.runs.insert(to.runs.end(), client.runs.begin(), client.runs.end());
  }
}

}  // namespace fusewire::tf
