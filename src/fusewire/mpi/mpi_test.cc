// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Ranks as threads, each with a World of its own; the functions of the ABI over the one World of a process are called
// by XLA in tests/jax.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/mpi/abi.h"
#include "fusewire/mpi/operations.h"
#include "fusewire/mpi/world.h"

// NOLINTBEGIN(readability-identifier-naming): MPItrampoline's names
extern "C" {
int MPIABI_Init_thread(int* argc, char*** argv, int required, int* provided);
int MPIABI_Is_thread_main(int* flag);
int MPIABI_Comm_rank(fusewire::mpi::Handle communicator, int* rank);
int MPIABI_Comm_size(fusewire::mpi::Handle communicator, int* size);
int MPIABI_Comm_split(fusewire::mpi::Handle communicator, int color, int key, fusewire::mpi::Handle* made);
int MPIABI_Comm_free(fusewire::mpi::Handle* communicator);
int MPIABI_Allreduce(const void* from, void* to, int count, fusewire::mpi::Handle datatype, fusewire::mpi::Handle op,
                     fusewire::mpi::Handle communicator);
int MPIABI_Bcast(void* data, int count, fusewire::mpi::Handle datatype, int root, fusewire::mpi::Handle communicator);
int MPIABI_Error_string(int error, char* text, int* length);
}
// NOLINTEND(readability-identifier-naming)

namespace fusewire::mpi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All endpoints exist before the first group is made, so that each has the others' addresses.
class Crew {
 public:
  explicit Crew(int ranks, int64_t timeout_ns = 20'000'000'000) : worlds_(static_cast<size_t>(ranks)) {
    const std::string cluster = "mpi-test-" + std::to_string(reinterpret_cast<uintptr_t>(this));
    for (int rank = 0; rank < ranks; ++rank) {
      fusewire_endpoint* endpoint = nullptr;
      names_.push_back("rank" + std::to_string(rank));
      fusewire_endpoint_options options{};
      options.name = names_.back().c_str();
      options.address = "127.0.0.1:0";
      options.cluster = cluster.c_str();
      EXPECT_EQ(fusewire_endpoint_start(&options, &endpoint), 0) << fusewire_error();
      endpoints_.push_back(endpoint);
      addresses_.emplace_back(fusewire_endpoint_address(endpoint));
    }
    std::vector<const char*> names, addresses;
    for (const std::string& name : names_) names.push_back(name.c_str());
    for (const std::string& address : addresses_) addresses.push_back(address.c_str());
    for (int rank = 0; rank < ranks; ++rank) {
      fusewire_group_options options{};
      options.name = "world";
      options.ranks = ranks;
      options.rank = rank;
      options.names = names.data();
      options.addresses = addresses.data();
      const auto place = static_cast<size_t>(rank);
      fusewire_group* group = nullptr;
      EXPECT_EQ(fusewire_group_make(endpoints_[place], &options, &group), 0) << fusewire_error();
      groups_.push_back(group);
      worlds_[place] = std::make_unique<World>();
      worlds_[place]->Join(endpoints_[place], group, names_, addresses_, timeout_ns);
    }
  }
  ~Crew() {
    for (size_t rank = 0; rank < groups_.size(); ++rank) {
      EXPECT_TRUE(worlds_[rank]->Leave());
      fusewire_group_free(groups_[rank]);
    }
    for (fusewire_endpoint* endpoint : endpoints_) {
      fusewire_endpoint_close(endpoint);
      fusewire_endpoint_free(endpoint);
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  World& world(int rank) { return *worlds_[static_cast<size_t>(rank)]; }

  // On a thread for each of these ranks; all ranks, if none is named.
  void Run(const std::function<void(World&, int)>& part, std::set<int> ranks = {}) {
    if (ranks.empty())
      for (int rank = 0; rank < static_cast<int>(worlds_.size()); ++rank) ranks.insert(rank);
    std::vector<std::thread> threads;
    for (const int rank : ranks) threads.emplace_back([this, &part, rank] { part(world(rank), rank); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::string> names_, addresses_;
  std::vector<fusewire_endpoint*> endpoints_;
  std::vector<fusewire_group*> groups_;
  std::vector<std::unique_ptr<World>> worlds_;
};

Message Bytes(void* data, int count, int peer, int tag = 0) { return {data, count, handle::kBYTE, peer, tag}; }

std::vector<int> RanksOf(World& world, Handle communicator) {
  const Use use(world, communicator);
  return use.communicator() == nullptr ? std::vector<int>() : use->ranks;
}

TEST(MpiAbi, ConstantsOfOneKindDiffer) {
  std::set<Handle> handles;
  size_t count = 0;
  for (const Handle one : {handle::kBYTE, handle::kINT8_T, handle::kUINT8_T, handle::kINT16_T, handle::kUINT16_T,
                           handle::kINT32_T, handle::kUINT32_T, handle::kINT64_T, handle::kUINT64_T, handle::kFLOAT,
                           handle::kDOUBLE, handle::kC_COMPLEX, handle::kC_DOUBLE_COMPLEX, handle::kSUM, handle::kPROD,
                           handle::kMIN, handle::kMAX, handle::kCOMM_WORLD, handle::kCOMM_SELF}) {
    handles.insert(one);
    ++count;
  }
  EXPECT_EQ(handles.size(), count);
  EXPECT_EQ(handles.count(0), 0U);
}

TEST(MpiAbi, WithoutAGroupEveryCallSaysSo) {
  int provided = 0, flag = 0, rank = -1, size = -1, length = 0;
  EXPECT_EQ(MPIABI_Init_thread(nullptr, nullptr, number::kTHREAD_FUNNELED, &provided), number::kSUCCESS);
  EXPECT_EQ(provided, number::kTHREAD_MULTIPLE);
  EXPECT_EQ(MPIABI_Is_thread_main(&flag), number::kSUCCESS);
  EXPECT_EQ(flag, 1);
  EXPECT_NE(MPIABI_Comm_rank(handle::kCOMM_WORLD, &rank), number::kSUCCESS);
  Handle made = 0;
  EXPECT_EQ(MPIABI_Comm_split(handle::kCOMM_WORLD, 0, 1, &made), number::kSUCCESS);  // XLA does not look at it
  (void)MPIABI_Comm_rank(made, &rank);
  (void)MPIABI_Comm_size(made, &size);
  EXPECT_EQ(rank, 1);
  float value = 0;
  const int error = MPIABI_Allreduce(&value, &value, 1, handle::kFLOAT, handle::kSUM, made);
  EXPECT_NE(error, number::kSUCCESS);
  std::array<char, kErrorTextBytes> text{};
  EXPECT_EQ(MPIABI_Error_string(error, text.data(), &length), number::kSUCCESS);
  EXPECT_EQ(std::string(text.data()).size(), static_cast<size_t>(length));
  EXPECT_THAT(text.data(), HasSubstr("call fusewire.jax.initialize()"));
  EXPECT_EQ(MPIABI_Comm_free(&made), number::kSUCCESS);
  EXPECT_EQ(made, handle::kCOMM_NULL);
}

TEST(MpiAbi, AFunctionThatIsNotServedSaysItsName) {
  const int error = MPIABI_Bcast(nullptr, 0, handle::kBYTE, 0, handle::kCOMM_WORLD);
  EXPECT_EQ(error, number::kERR_UNSUPPORTED_OPERATION);
  EXPECT_THAT(TextOf(error), HasSubstr("MPI_Bcast is not served"));
}

TEST(MpiWorld, SplitsByColourInTheOrderOfKeys) {
  Crew crew(4);
  std::array<std::vector<int>, 4> found;
  crew.Run([&found](World& world, int rank) {
    const Handle made = world.Split(rank % 2, 1 - rank / 2);  // colours 0 and 1; the later rank comes first
    found[static_cast<size_t>(rank)] = RanksOf(world, made);
    float one = static_cast<float>(rank), sum = 0;
    EXPECT_EQ(AllReduce(world, &one, &sum, 1, handle::kFLOAT, handle::kSUM, made), number::kSUCCESS);
    EXPECT_EQ(sum, rank % 2 == 0 ? 2.0F : 4.0F);
    world.Free(made);
    EXPECT_EQ(AllReduce(world, &one, &sum, 1, handle::kFLOAT, handle::kSUM, made), number::kERR_COMM);
  });
  EXPECT_THAT(found[0], ElementsAre(2, 0));
  EXPECT_THAT(found[3], ElementsAre(3, 1));
}

TEST(MpiWorld, SomeRanksMakeACommunicatorWithoutTheOthers) {
  Crew crew(3);
  crew.Run(
      [](World& world, int rank) {
        for (int turn = 0; turn < 2; ++turn) {
          world.Expect({0, 2});
          const Handle made = world.Split(7, rank == 2 ? 0 : 1);
          world.Expect({});
          EXPECT_THAT(RanksOf(world, made), ElementsAre(2, 0));
          int32_t one = rank, sum = 0;
          EXPECT_EQ(AllReduce(world, &one, &sum, 1, handle::kINT32_T, handle::kMAX, made), number::kSUCCESS);
          EXPECT_EQ(sum, 2);
        }
      },
      {0, 2});
}

TEST(MpiWorld, RanksThatMakeDifferentCommunicatorsAreTold) {
  Crew crew(2);
  crew.Run([](World& world, int /*rank*/) {
    const Handle made = world.Split(0, 0);  // both say that they are the first
    float value = 1;
    const int error = AllReduce(world, &value, &value, 1, handle::kFLOAT, handle::kSUM, made);
    EXPECT_NE(error, number::kSUCCESS);
    EXPECT_THAT(TextOf(error), HasSubstr("in different orders"));
  });
}

TEST(MpiWorld, AMissingRankIsNamed) {
  Crew crew(2, 300'000'000);
  const Handle made = crew.world(0).Split(0, 0);
  float value = 1;
  const int error = AllReduce(crew.world(0), &value, &value, 1, handle::kFLOAT, handle::kSUM, made);
  EXPECT_NE(error, number::kSUCCESS);
  EXPECT_THAT(TextOf(error), HasSubstr("rank 1"));
  EXPECT_THAT(TextOf(error), HasSubstr("prepare(mesh)"));
}

TEST(MpiWorld, LeavingEndsWhatIsUnderWay) {
  Crew crew(2);
  std::promise<void> began;
  std::thread waits([&crew, &began] {
    Handle receive = 0;
    std::array<char, 8> into{};
    EXPECT_EQ(BeginReceive(crew.world(0), Bytes(into.data(), 8, 1), handle::kCOMM_WORLD, &receive), number::kSUCCESS);
    began.set_value();
    float value = 1;  // rank 1 does not come
    EXPECT_NE(AllReduce(crew.world(0), &value, &value, 1, handle::kFLOAT, handle::kSUM, handle::kCOMM_WORLD),
              number::kSUCCESS);
  });
  began.get_future().wait();
  EXPECT_TRUE(crew.world(1).Leave());
  EXPECT_TRUE(crew.world(0).Leave());
  waits.join();
}

TEST(MpiCollectives, GatherAndReduceScatter) {
  Crew crew(3);
  crew.Run([](World& world, int rank) {
    const std::array<uint16_t, 2> own{static_cast<uint16_t>(rank), static_cast<uint16_t>(10 + rank)};
    std::array<uint16_t, 6> all{};
    EXPECT_EQ(AllGather(world, own.data(), 2, handle::kUINT16_T, all.data(), 2, handle::kUINT16_T, handle::kCOMM_WORLD),
              number::kSUCCESS);
    EXPECT_THAT(all, ElementsAre(0, 10, 1, 11, 2, 12));
    const std::array<int, 3> counts{1, 2, 3};
    const std::array<double, 6> from{1, 2, 3, 4, 5, 6};
    std::array<double, 3> to{};
    EXPECT_EQ(
        ReduceScatter(world, from.data(), to.data(), counts.data(), handle::kDOUBLE, handle::kSUM, handle::kCOMM_WORLD),
        number::kSUCCESS);
    constexpr std::array<std::array<double, 3>, 3> kWanted{{{3, 0, 0}, {6, 9, 0}, {12, 15, 18}}};
    EXPECT_EQ(to, kWanted[static_cast<size_t>(rank)]);
  });
}

TEST(MpiCollectives, ProductsOfComplexNumbersInSeveralSteps) {
  Crew crew(2);
  crew.Run([](World& world, int rank) {
    using Number = std::complex<double>;
    constexpr int kCount = 100'000;  // 1.6 MB: two steps
    std::vector<Number> from(kCount), to(kCount);
    for (int i = 0; i < kCount; ++i) from[static_cast<size_t>(i)] = rank == 0 ? Number(i, 1) : Number(2, -1);
    EXPECT_EQ(
        AllReduce(world, from.data(), to.data(), kCount, handle::kC_DOUBLE_COMPLEX, handle::kPROD, handle::kCOMM_WORLD),
        number::kSUCCESS);
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(to[static_cast<size_t>(i)], Number(i, 1) * Number(2, -1)) << i;
    const std::array<int, 2> counts{1, 1};
    const std::array<Number, 2> both{Number(0, 1 + rank), Number(3, 0)};
    Number part;
    EXPECT_EQ(ReduceScatter(world, both.data(), &part, counts.data(), handle::kC_DOUBLE_COMPLEX, handle::kPROD,
                            handle::kCOMM_WORLD),
              number::kSUCCESS);
    EXPECT_EQ(part, rank == 0 ? Number(-2, 0) : Number(9, 0));
  });
}

TEST(MpiCollectives, OneArrayAsInputAndResult) {
  Crew crew(2);
  crew.Run([](World& world, int rank) {
    std::array<int64_t, 4> array{1, 2, 3, 4};
    EXPECT_EQ(AllReduce(world, array.data(), array.data(), 4, handle::kINT64_T, handle::kPROD, handle::kCOMM_WORLD),
              number::kSUCCESS);
    EXPECT_THAT(array, ElementsAre(1, 4, 9, 16));
    const std::array<int, 2> counts{2, 2};
    EXPECT_EQ(ReduceScatter(world, array.data(), array.data(), counts.data(), handle::kINT64_T, handle::kSUM,
                            handle::kCOMM_WORLD),
              number::kSUCCESS);
    EXPECT_EQ(array[0], rank == 0 ? 2 : 18);
    EXPECT_EQ(array[1], rank == 0 ? 8 : 32);
  });
}

TEST(MpiCollectives, UnsupportedCallsAreRefusedAtOnce) {
  Crew crew(1);
  World& world = crew.world(0);
  std::complex<float> number;
  EXPECT_EQ(AllReduce(world, &number, &number, 1, handle::kC_COMPLEX, handle::kMAX, handle::kCOMM_WORLD),
            number::kERR_UNSUPPORTED_OPERATION);
  EXPECT_EQ(AllReduce(world, &number, &number, 1, handle::kLONG_DOUBLE, handle::kSUM, handle::kCOMM_WORLD),
            number::kERR_UNSUPPORTED_OPERATION);
  EXPECT_EQ(AllReduce(world, &number, &number, -5, handle::kFLOAT, handle::kSUM, handle::kCOMM_WORLD),
            number::kERR_COUNT);
  EXPECT_THAT(TextOf(number::kERR_COUNT), HasSubstr("31 bits"));
}

TEST(MpiMessages, RingOfSendsAndReceives) {
  Crew crew(3);
  crew.Run([](World& world, int rank) {
    for (int turn = 0; turn < 50; ++turn) {
      int sent = 100 * turn + rank, received = -1;
      Handle receive = 0, send = 0;
      EXPECT_EQ(BeginReceive(world, Bytes(&received, 4, (rank + 2) % 3), handle::kCOMM_WORLD, &receive),
                number::kSUCCESS);
      EXPECT_EQ(BeginSend(world, Bytes(&sent, 4, (rank + 1) % 3), handle::kCOMM_WORLD, &send), number::kSUCCESS);
      Status status{};
      EXPECT_EQ(Wait(world, &receive, &status), number::kSUCCESS);
      EXPECT_EQ(Wait(world, &send, nullptr), number::kSUCCESS);
      EXPECT_EQ(received, 100 * turn + (rank + 2) % 3);
      EXPECT_EQ(status.source, (rank + 2) % 3);
      EXPECT_EQ(receive, handle::kREQUEST_NULL);
    }
  });
}

TEST(MpiMessages, AWrongSizeEndsTheCommunicator) {
  Crew crew(2);
  crew.Run([](World& world, int rank) {
    std::array<char, 16> sent{}, received{};
    const int bytes = rank == 0 ? 16 : 8;
    const int error = SendReceive(world, Bytes(sent.data(), bytes, 1 - rank), Bytes(received.data(), bytes, 1 - rank),
                                  handle::kCOMM_WORLD, nullptr);
    EXPECT_NE(error, number::kSUCCESS);
    EXPECT_THAT(TextOf(error), HasSubstr("rank " + std::to_string(1 - rank)));
    Handle request = 0;
    EXPECT_NE(BeginSend(world, Bytes(sent.data(), 1, 1 - rank), handle::kCOMM_WORLD, &request), number::kSUCCESS);
    EXPECT_THAT(TextOf(number::kERR_OTHER), HasSubstr("an operation before this one has failed"));
  });
}

TEST(MpiMessages, AFailureReachesRanksThatWaitForOthers) {
  Crew crew(3);
  crew.Run([](World& world, int rank) {
    char data = 0;
    Handle request = 0;
    if (rank == 2) {  // it refuses its own part, so rank 0 gets nothing
      world.Listen(handle::kCOMM_WORLD);
      world.Break(handle::kCOMM_WORLD, "rank 2 does not want to");
      return;
    }
    EXPECT_EQ(BeginReceive(world, Bytes(&data, 1, 1 - rank), handle::kCOMM_WORLD, &request), number::kSUCCESS);
    EXPECT_EQ(Wait(world, &request, nullptr), number::kERR_OTHER);
    EXPECT_THAT(TextOf(number::kERR_OTHER), HasSubstr("rank 2 does not want to"));
  });
}

TEST(MpiMessages, UnsupportedCallsAreRefusedAtOnce) {
  Crew crew(2);
  World& world = crew.world(0);
  char data = 0;
  Handle request = 0;
  EXPECT_EQ(BeginSend(world, Bytes(&data, 1, 0), handle::kCOMM_WORLD, &request), number::kERR_RANK);
  EXPECT_EQ(BeginSend(world, Bytes(&data, 1, 2), handle::kCOMM_WORLD, &request), number::kERR_RANK);
  EXPECT_EQ(BeginReceive(world, Bytes(&data, 1, number::kANY_SOURCE), handle::kCOMM_WORLD, &request),
            number::kERR_RANK);
  EXPECT_EQ(BeginReceive(world, Bytes(&data, 1, 1, number::kANY_TAG), handle::kCOMM_WORLD, &request), number::kERR_TAG);
  EXPECT_EQ(BeginSend(world, Bytes(&data, -1, 1), handle::kCOMM_WORLD, &request), number::kERR_COUNT);
  EXPECT_EQ(request, handle::kREQUEST_NULL);
  EXPECT_EQ(Wait(world, &request, nullptr), number::kSUCCESS);
}

}  // namespace
}  // namespace fusewire::mpi
