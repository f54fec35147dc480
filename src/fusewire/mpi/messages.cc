// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/mpi/messages.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "fusewire/base/clock.h"
#include "fusewire/mpi/collectives.h"
#include "fusewire/mpi/errors.h"

namespace fusewire::mpi {
namespace {

constexpr char kReceive[] = "a receive from";
constexpr char kSend[] = "a send to";
constexpr int64_t kLookNs =
    kSecondNs / 20;  // between two looks at what others tell; operations have limits of their own

int Refuse(const Use& use, const Message& message, const char* verb) {
  if (use.error() != number::kSUCCESS) return use.error();
  const auto size = static_cast<int>(use->ranks.size());
  if (message.peer < 0 || message.peer >= size || message.peer == use->rank)
    return Fail(number::kERR_RANK, std::string(verb) + " rank " + std::to_string(message.peer) +
                                       " is not served: Fusewire has messages with another rank of the communicator, "
                                       "from 0 to " +
                                       std::to_string(size - 1));
  if (!ElementsOf(message.datatype))
    return Fail(number::kERR_TYPE, "a message of type " + std::to_string(message.datatype) +
                                       " is not served: Fusewire has what XLA uses on CPUs");
  if (message.tag < 0)
    return Fail(number::kERR_TAG, "tag " + std::to_string(message.tag) + " is not served: name the one that is spec");
  if (message.count < 0)
    return Fail(number::kERR_COUNT, std::string(verb) + " rank " + std::to_string(message.peer) +
                                        ": the message has more than 2 GiB, which XLA can't say to MPI; make the array "
                                        "smaller");
  return number::kSUCCESS;
}

// Null: Fail() has been called.
std::unique_ptr<Request> Start(World& world, const Use& use, const Message& message, bool receives) {
  const int world_rank = use->ranks[static_cast<size_t>(message.peer)];
  fusewire_peer* const peer = world.PeerOf(world_rank);
  if (peer == nullptr) return nullptr;
  auto one = std::make_unique<Request>();
  one->thread = std::this_thread::get_id();
  one->what = std::string(receives ? kReceive : kSend) + " rank " + std::to_string(world_rank);
  one->bytes_max = static_cast<size_t>(message.count) * ElementsOf(message.datatype)->bytes();
  one->receives = receives;
  one->peer = message.peer;
  one->tag = message.tag;
  const uint64_t tag = use->tags | static_cast<uint32_t>(message.tag);
  one->op = receives ? fusewire_receive_op(world.endpoint(), peer, tag, message.data, one->bytes_max)
                     : fusewire_send_op(world.endpoint(), peer, tag, message.data, one->bytes_max, 0);
  fusewire_op_post(one->op, world.timeout_ns());
  return one;
}

int Begin(World& world, const Message& message, bool receives, Handle communicator, Handle* request) {
  *request = handle::kREQUEST_NULL;
  const Use use(world, communicator);
  int error = Refuse(use, message, receives ? kReceive : kSend);
  if (error == number::kSUCCESS) {
    std::unique_ptr<Request> one = Start(world, use, message, receives);
    if (one != nullptr) {
      one->communicator = communicator;
      world.Listen(communicator);
      *request = world.Keep(std::move(one));
      return number::kSUCCESS;
    }
    error = number::kERR_OTHER;
  }
  world.DropRequests(communicator);
  return error;
}

int ResultOf(const Request& request) {
  const int code = fusewire_op_result(request.op);
  if (code != 0) return FailAs(code, request.what + " failed");
  if (!request.receives) return number::kSUCCESS;
  const uint64_t received = fusewire_op_received(request.op);
  if (received == request.bytes_max) return number::kSUCCESS;
  return Fail(number::kERR_TRUNCATE, request.what + " got " + std::to_string(received) + " bytes, and " +
                                         std::to_string(request.bytes_max) +
                                         " were expected: both processes have to run the same program");
}

}  // namespace

int BeginSend(World& world, const Message& message, Handle communicator, Handle* request) {
  return Begin(world, message, false, communicator, request);
}

int BeginReceive(World& world, const Message& message, Handle communicator, Handle* request) {
  return Begin(world, message, true, communicator, request);
}

int Wait(World& world, Handle* request, Status* status) {
  if (*request == handle::kREQUEST_NULL) return number::kSUCCESS;
  const std::unique_ptr<Request> one = world.Take(*request);
  *request = handle::kREQUEST_NULL;
  if (one == nullptr)
    return Fail(number::kERR_REQUEST,
                "the operation has ended: this process left the group, or another part of it "
                "failed before");
  std::string told;
  while (fusewire_op_wait(one->op, kLookNs) == 0 && told.empty()) told = world.Told(one->communicator);
  const int error = told.empty() ? ResultOf(*one) : Fail(number::kERR_OTHER, one->what + " was given up: " + told);
  fusewire_op_free(one->op);
  if (error != number::kSUCCESS) {
    const std::string text = TextOf(error);  // what is dropped has errors of its own
    world.DropRequests(one->communicator);
    world.Break(one->communicator, text);
    return Fail(error, text);
  }
  if (status != nullptr) {
    status->source = one->peer;
    status->tag = one->tag;
    status->error = error;
  }
  return error;
}

int SendReceive(World& world, const Message& sent, const Message& received, Handle communicator, Status* status) {
  Handle receive = handle::kREQUEST_NULL, send = handle::kREQUEST_NULL;
  int error = BeginReceive(world, received, communicator, &receive);
  if (error != number::kSUCCESS) return error;
  error = BeginSend(world, sent, communicator, &send);
  if (error != number::kSUCCESS) return error;  // which has ended the receive, too
  error = Wait(world, &receive, status);
  if (error != number::kSUCCESS) return error;
  return Wait(world, &send, nullptr);
}

}  // namespace fusewire::mpi
