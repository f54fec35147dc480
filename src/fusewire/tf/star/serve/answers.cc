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
        client.runs.erase(std::remove_if(client.runs.begin(), client.runs.end(),
                                         [&](const Run& run) { return run.number < ticket.open; }),
                          client.runs.end());
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
  if (run->again) before = std::exchange(*reply, std::move(run->again));
  run->is_kept = head.size + TotalBytes(body) <= kKeptBytesMax;
  if (run->is_kept) {
    run->head = head.ToString();
    for (const Buffer& segment : body) run->body.push_back(Buffer::CopyOf(ConstBytes(segment.bytes())));
  }
  lock.Unlock();
  if (before) before.Send(Status::Cancelled("it came again over another connection"));
}

size_t Answers::kept() {
  MutexLock lock(mutex_);
  size_t sum = 0;
  for (const auto& client : clients_) sum += client.second.runs.size();
  return sum;
}

}  // namespace fusewire::tf
