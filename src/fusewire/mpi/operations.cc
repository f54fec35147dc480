// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/mpi/operations.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"

namespace fusewire::mpi {
namespace {

using collective::CollectiveKind;
using collective::Op;
using collective::Type;

std::optional<Op> OpOf(Handle op) {
  switch (op) {
    case handle::kSUM: return Op::kSum;
    case handle::kPROD: return Op::kProduct;
    case handle::kMIN: return Op::kMin;
    case handle::kMAX: return Op::kMax;
    default: return std::nullopt;
  }
}

std::string RanksOf(const Communicator& communicator) {
  std::string text;
  for (const int rank : communicator.ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

// One collective of a group: lists and arrays stay the caller's.
struct Call {
  CollectiveKind kind;
  Type type;
  Op op;
  std::vector<uint64_t> counts;
  fusewire_piece from;
  fusewire_piece to;
  const char* name;
};

int Run(World& world, Handle handle, const Communicator& communicator, const Call& call) {
  fusewire_collective_spec spec{};
  spec.kind = static_cast<int>(call.kind);
  spec.type = static_cast<int>(call.type);
  spec.op = static_cast<int>(call.op);
  spec.counts = call.counts.data();
  spec.counts_size = call.counts.size();
  spec.from = &call.from;
  spec.from_size = call.from.data == nullptr ? 0 : 1;
  spec.to = &call.to;
  spec.to_size = 1;
  spec.timeout_ns = world.timeout_ns();
  const int code = fusewire_group_run(communicator.group, &spec, nullptr);
  if (code == 0) return number::kSUCCESS;
  std::string what = std::string(call.name);
  if (!std::is_sorted(communicator.ranks.begin(), communicator.ranks.end()) ||
      communicator.ranks.back() + 1 != static_cast<int>(communicator.ranks.size()))
    what += " among processes " + RanksOf(communicator) + ", which are its ranks 0 to " +
            std::to_string(communicator.ranks.size() - 1);
  const int error = FailAs(code, what);
  const std::string text = TextOf(error);  // telling the others may have errors of its own
  world.Break(handle, text);
  return Fail(error, text);
}

// Null if `from` means that the input is in `to`. XLA gives one array as both where it reuses it.
fusewire_piece Input(const void* from, const void* to, size_t bytes) {
  if (from == to || reinterpret_cast<Handle>(from) == handle::kIN_PLACE) return {nullptr, 0};
  return {const_cast<void*>(from), bytes};  // the C API has one type of piece for both directions
}

int Unserved(const std::string& what) {
  return Fail(number::kERR_UNSUPPORTED_OPERATION,
              what +
                  " is not served: Fusewire has what XLA uses on CPUs: sum, product, least and greatest of integers "
                  "up to 64 bits, floats and doubles, and sum and product of their complex numbers");
}

int BadCount(const char* name, int count) {
  return Fail(number::kERR_COUNT, std::string(name) + " of " + std::to_string(count) +
                                      " elements: counts of MPI have 31 bits, and XLA cuts longer ones; make the array "
                                      "smaller, or split it over more axes of the mesh");
}

// ---- the product of complex numbers, which no group has ----

constexpr size_t kProductBytesMax = 1 << 20;  // of each rank at a time

template <class Real>
void Multiply(const unsigned char* gathered, size_t ranks, size_t count, unsigned char* into) {
  using Number = std::complex<Real>;
  const auto* const all = reinterpret_cast<const Number*>(gathered);
  auto* const product = reinterpret_cast<Number*>(into);
  for (size_t i = 0; i < count; ++i) {
    Number value = all[i];
    for (size_t rank = 1; rank < ranks; ++rank) value *= all[rank * count + i];
    product[i] = value;
  }
}

// Every rank multiplies what all have, in the order of ranks. `from` may be `to`.
int MultiplyAll(World& world, Handle handle, const Communicator& communicator, const Elements& elements,
                const void* from, void* to, size_t count, const char* name) {
  const size_t ranks = communicator.ranks.size();
  const size_t step = std::min(count, kProductBytesMax / elements.bytes());
  std::vector<unsigned char> gathered(ranks * step * elements.bytes());
  for (size_t done = 0; done < count; done += step) {
    const size_t now = std::min(step, count - done);
    const size_t bytes = now * elements.bytes();
    const auto* const source = static_cast<const unsigned char*>(from) + done * elements.bytes();
    Call call{CollectiveKind::kAllGather, elements.type, Op::kSum, {}, {}, {gathered.data(), ranks * bytes}, name};
    call.counts.assign(ranks, now * elements.each);
    call.from = {const_cast<unsigned char*>(source), bytes};
    const int error = Run(world, handle, communicator, call);
    if (error != number::kSUCCESS) return error;
    auto* const target = static_cast<unsigned char*>(to) + done * elements.bytes();
    if (elements.type == Type::kF32) {
      Multiply<float>(gathered.data(), ranks, now, target);
    } else {
      Multiply<double>(gathered.data(), ranks, now, target);
    }
  }
  return number::kSUCCESS;
}

// ---- what each call checks first ----

struct Checked {
  Elements elements;
  Op op = Op::kSum;
  int error = number::kSUCCESS;
};

Checked Check(const Use& use, Handle datatype, Handle op, const char* name) {
  Checked checked;
  checked.error = use.error();
  if (checked.error != number::kSUCCESS) return checked;
  const std::optional<Elements> elements = ElementsOf(datatype);
  const std::optional<Op> known = OpOf(op);
  if (!elements || !known) {
    checked.error =
        Unserved(std::string(name) + " with type " + std::to_string(datatype) + " and operator " + std::to_string(op));
    return checked;
  }
  checked.elements = *elements;
  checked.op = *known;
  if (elements->each == 2 && (*known == Op::kMin || *known == Op::kMax))
    checked.error = Unserved(std::string(name) + " for the least or greatest of complex numbers");
  return checked;
}

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

std::optional<Elements> ElementsOf(Handle datatype) {
  switch (datatype) {
    case handle::kINT8_T: return Elements{Type::kI8, 1};
    case handle::kINT16_T: return Elements{Type::kI16, 1};
    case handle::kINT32_T: return Elements{Type::kI32, 1};
    case handle::kINT64_T: return Elements{Type::kI64, 1};
    case handle::kUINT8_T:
    case handle::kBYTE: return Elements{Type::kU8, 1};
    case handle::kUINT16_T: return Elements{Type::kU16, 1};
    case handle::kUINT32_T: return Elements{Type::kU32, 1};
    case handle::kUINT64_T: return Elements{Type::kU64, 1};
    case handle::kFLOAT: return Elements{Type::kF32, 1};
    case handle::kDOUBLE: return Elements{Type::kF64, 1};
    case handle::kC_COMPLEX: return Elements{Type::kF32, 2};
    case handle::kC_DOUBLE_COMPLEX: return Elements{Type::kF64, 2};
    default: return std::nullopt;
  }
}

int AllReduce(World& world, const void* from, void* to, int count, Handle datatype, Handle op, Handle communicator) {
  const char kName[] = "all-reduce";
  const Use use(world, communicator);
  const Checked checked = Check(use, datatype, op, kName);
  if (checked.error != number::kSUCCESS) return checked.error;
  if (count < 0) return BadCount(kName, count);
  if (count == 0) return number::kSUCCESS;
  const auto many = static_cast<size_t>(count);
  const fusewire_piece input = Input(from, to, many * checked.elements.bytes());
  if (checked.elements.each == 2 && checked.op == Op::kProduct)
    return MultiplyAll(world, communicator, *use.communicator(), checked.elements, input.data == nullptr ? to : from,
                       to, many, kName);
  return Run(world, communicator, *use.communicator(),
             {CollectiveKind::kAllReduce,
              checked.elements.type,
              checked.op,
              {many * checked.elements.each},
              input,
              {to, many * checked.elements.bytes()},
              kName});
}

int AllGather(World& world, const void* from, int from_count, Handle from_type, void* to, int to_count, Handle to_type,
              Handle communicator) {
  const char kName[] = "all-gather";
  const Use use(world, communicator);
  const Checked checked = Check(use, to_type, handle::kSUM, kName);
  if (checked.error != number::kSUCCESS) return checked.error;
  if (to_count < 0) return BadCount(kName, to_count);
  const size_t ranks = use->ranks.size();
  const size_t bytes = static_cast<size_t>(to_count) * checked.elements.bytes();
  const bool in_place = reinterpret_cast<Handle>(from) == handle::kIN_PLACE;
  if (!in_place && (from_type != to_type || from_count != to_count))
    return Unserved("an all-gather whose parts differ in type or size");
  if (bytes == 0) return number::kSUCCESS;
  Call call{CollectiveKind::kAllGather, checked.elements.type, Op::kSum, {}, {}, {to, ranks * bytes}, kName};
  call.counts.assign(ranks, static_cast<size_t>(to_count) * checked.elements.each);
  const auto* const own = static_cast<unsigned char*>(to) + static_cast<size_t>(use->rank) * bytes;
  call.from = Input(from, own, bytes);
  return Run(world, communicator, *use.communicator(), call);
}

int ReduceScatter(World& world, const void* from, void* to, const int* counts, Handle datatype, Handle op,
                  Handle communicator) {
  const char kName[] = "reduce-scatter";
  const Use use(world, communicator);
  const Checked checked = Check(use, datatype, op, kName);
  if (checked.error != number::kSUCCESS) return checked.error;
  const size_t ranks = use->ranks.size();
  const size_t each = checked.elements.bytes();
  size_t all = 0, before = 0;
  Call call{CollectiveKind::kReduceScatter, checked.elements.type, checked.op, {}, {}, {}, kName};
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (counts[rank] < 0) return BadCount(kName, counts[rank]);
    const auto count = static_cast<size_t>(counts[rank]);
    call.counts.push_back(count * checked.elements.each);
    if (rank < static_cast<size_t>(use->rank)) before += count;
    all += count;
  }
  if (all == 0) return number::kSUCCESS;
  const size_t own = static_cast<size_t>(counts[use->rank]) * each;
  if (reinterpret_cast<Handle>(from) == handle::kIN_PLACE) return Unserved("a reduce-scatter in place");
  // XLA may give one array as both: its own part goes to the beginning, which others' parts still need.
  std::vector<unsigned char> copy;
  if (from == to || (checked.elements.each == 2 && checked.op == Op::kProduct)) copy.resize(all * each);
  if (checked.elements.each == 2 && checked.op == Op::kProduct) {
    const int error =
        MultiplyAll(world, communicator, *use.communicator(), checked.elements, from, copy.data(), all, kName);
    if (error == number::kSUCCESS) std::copy_n(copy.data() + before * each, own, static_cast<unsigned char*>(to));
    return error;
  }
  if (from == to) std::copy_n(static_cast<const unsigned char*>(from), all * each, copy.data());
  call.from = {from == to ? copy.data() : const_cast<void*>(from), all * each};
  call.to = {to, own};
  return Run(world, communicator, *use.communicator(), call);
}

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
