// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A server with one method and a client that asks it, in one process.
#include <cstdio>

#include "fusewire/rpc/rpc.h"

namespace rpc = fusewire::rpc;

int main() {
  // This process as a task of a cluster: its name, its reactors, its limits.
  auto task = fusewire::task::Task::Start(fusewire::task::TaskOptions());
  if (!task.ok()) return std::fprintf(stderr, "%s\n", task.status().ToString().c_str()), 1;

  // A method is a number and a function. It runs on a reactor: quick work answers at once, slow work moves the Reply
  // away.
  rpc::Method greet;
  greet.number = 1;
  greet.name = "greet";
  greet.handle = [](rpc::Request request, rpc::Reply reply) {
    reply.Send(fusewire::Status::Ok(), "hello, " + request.head.ToString(), std::move(request.body));
  };
  std::vector<rpc::Method> methods;
  methods.push_back(std::move(greet));
  auto server = rpc::Server::Open(*task.value(), {"127.0.0.1", 0}, std::move(methods));
  if (!server.ok()) return std::fprintf(stderr, "%s\n", server.status().ToString().c_str()), 1;

  // A client connects when it is first asked. The head is a few bytes; the body is memory that is never copied.
  rpc::Client client(*task.value(), server.value()->address());
  std::string name = "world";
  fusewire::Buffers tensors;
  tensors.push_back(fusewire::Buffer::TryAllocate(4 << 20));
  rpc::Client::Answer answer = client.Ask(1, name, std::move(tensors), 5 * fusewire::kSecondNs);
  std::printf("%s: %s, with %zu bytes\n", answer.status.ToString().c_str(), answer.head.c_str(),
              answer.body.empty() ? size_t{0} : answer.body[0].size());
  return answer.status.ok() ? 0 : 1;
}
