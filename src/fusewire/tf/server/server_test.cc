// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: server/session.cc. A server of a cluster of one task, and sessions whose master it is.
#include "fusewire/tf/server/server.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/reactor/completion.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/keys.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/server/options.h"
#include "fusewire/tf/server/session.h"
#include "fusewire/tf/snapshot/folder_test.h"
#include "fusewire/tf/snapshot/snapshots.h"
#include "fusewire/tf/state/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/graph.pb.h>
#include <tensorflow/core/public/session_options.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using testing::HasSubstr;
using testing::StartsWith;

tensorflow::ServerDef DefOf(const std::string& protocol, const std::string& name = "worker") {
  tensorflow::ServerDef def;
  def.set_protocol(protocol);
  def.set_job_name(name);
  def.set_task_index(0);
  tensorflow::JobDef* job = def.mutable_cluster()->add_job();
  job->set_name(name);
  (*job->mutable_tasks())[0] = "localhost:0";
  return def;
}

// TensorFlow's servers live until the process ends, and so does this one.
tensorflow::ServerInterface& TheServer() {
  static tensorflow::ServerInterface* server = [] {
    std::unique_ptr<tensorflow::ServerInterface> made;
    TfStatus status = Server::Make(DefOf("grpc++"), {}, &made);
    EXPECT_TRUE(status.ok()) << status;
    status = made->Start();
    EXPECT_TRUE(status.ok()) << status;
    return made.release();
  }();
  return *server;
}

tensorflow::NodeDef* Add(tensorflow::GraphDef* graph, const std::string& name, const std::string& op) {
  tensorflow::NodeDef* node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  return node;
}

// "negative" of what is fed to "fed"; and "never", which waits for a queue that stays empty.
tensorflow::GraphDef SomeGraph() {
  tensorflow::GraphDef graph;
  (*Add(&graph, "fed", "Placeholder")->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  tensorflow::NodeDef* negative = Add(&graph, "negative", "Neg");
  negative->add_input("fed");
  (*negative->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  tensorflow::NodeDef* queue = Add(&graph, "queue", "FIFOQueueV2");
  tensorflow::NodeDef* never = Add(&graph, "never", "QueueDequeueV2");
  never->add_input("queue");
  for (tensorflow::NodeDef* node : {queue, never})
    (*node->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_FLOAT);
  return graph;
}

TEST(ServerTest, OffersSessionsAndADataPort) {
  const std::string target = TheServer().target();
  EXPECT_THAT(target, StartsWith("grpc://localhost:"));
  EXPECT_TRUE(HasSessionsFor(target));
  EXPECT_FALSE(HasSessionsFor("grpc://localhost:1"));
  EXPECT_GE(GlobalCounters().servers.load(), 1u);
}

TEST(ServerTest, OfAnotherProtocolIsTensorFlowsOwn) {
  const uint64_t before = GlobalCounters().servers.load();
  static tensorflow::ServerInterface* server = [] {
    std::unique_ptr<tensorflow::ServerInterface> made;
    TfStatus status = Server::Make(DefOf(kStockProtocol), {}, &made);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(made->Start().ok());
    return made.release();
  }();
  EXPECT_FALSE(HasSessionsFor(server->target()));
  EXPECT_EQ(GlobalCounters().servers.load(), before);  // it opens no data port
}

TEST(ServerTest, SaysWhyItCannotBe) {
  tensorflow::ServerDef def = DefOf("grpc++");
  def.set_task_index(7);  // which is not in the cluster
  std::unique_ptr<tensorflow::ServerInterface> made;
  TfStatus status = Server::Make(def, {}, &made);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(made, nullptr);
}

// ---- snapshots ----

// A folder for parameter servers that are made meanwhile.
class ServerSnapshotsTest : public testing::Test {
 protected:
  ServerSnapshotsTest() {
    setenv("FUSEWIRE_SNAPSHOTS", folder_.path().c_str(), 1);
    setenv("FUSEWIRE_SNAPSHOT_EVERY", "3600", 1);
  }
  ~ServerSnapshotsTest() override {
    unsetenv("FUSEWIRE_SNAPSHOTS");
    unsetenv("FUSEWIRE_SNAPSHOT_EVERY");
  }
  // TensorFlow's servers live until the process ends, and so does this one.
  static tensorflow::DeviceMgr* DevicesOfAServer(const tensorflow::ServerFactory::Options& options = {}) {
    std::unique_ptr<tensorflow::ServerInterface> made;
    TfStatus status = Server::Make(DefOf("star_server", "ps"), options, &made);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(made->Start().ok());
    return made.release()->worker_env()->device_mgr;
  }
  static uint64_t StateOf(const tensorflow::DeviceMgr& devices) {
    return devices.HostCPU()->attributes().incarnation();
  }
  static Holding Rows() {
    Holding rows;
    rows.device = "CPU:0";
    rows.name = "rows";
    return rows;
  }
  static bool HasRows(const tensorflow::DeviceMgr& devices) {
    std::unique_ptr<HoldingReader> reader;
    return ReadHolding(devices.HostCPU(), Rows(), &reader).ok();
  }
  // Returns the state's number.
  uint64_t WriteSnapshot() {
    std::unique_ptr<Snapshots> snapshots;
    TfStatus opened = Snapshots::Open(ReadSettings("ps").snapshots, DefOf("star_server", "ps"), &snapshots);
    EXPECT_TRUE(opened.ok()) << opened;
    EXPECT_TRUE(RestoreHolding(snapshots->devices()->HostCPU(), Rows(), {Tensor(2.0F)}).ok());
    snapshots->inventory().Add(Rows());
    EXPECT_TRUE(snapshots->Write().ok());
    return StateOf(*snapshots->devices());
  }
  Owner TheOwner() const {
    const SnapshotFolder folder(tensorflow::Env::Default(), folder_.path(), "ps:0");
    std::vector<FolderFile> files;
    Owner read;
    EXPECT_TRUE(folder.List(&files).ok());
    for (const FolderFile& file : files) {
      if (file.kind != FolderFileKind::kOwner || file.tenure.epoch < read.epoch) continue;
      EXPECT_TRUE(folder.ReadOwner(file, &read).ok());
    }
    return read;
  }

  const TemporaryFolder folder_;
};

TEST_F(ServerSnapshotsTest, AParameterServerStartsWithItsSnapshot) {
  const uint64_t state = WriteSnapshot();
  const tensorflow::DeviceMgr* devices = DevicesOfAServer();
  EXPECT_EQ(StateOf(*devices), state);
  EXPECT_TRUE(HasRows(*devices));
}

TEST_F(ServerSnapshotsTest, AServerWhoseProgramHasMadeTheDevicesDoesNot) {
  const uint64_t state = WriteSnapshot();
  tensorflow::ServerFactory::Options options;
  std::unique_ptr<tensorflow::DeviceMgr> devices;
  ASSERT_TRUE(MakeDevices(DefOf("star_server", "ps"), {}, &devices).ok());
  options.local_device_mgr = devices.release();  // lives as long as the server
  EXPECT_EQ(DevicesOfAServer(options), options.local_device_mgr);
  EXPECT_NE(StateOf(*options.local_device_mgr), state);
  EXPECT_FALSE(HasRows(*options.local_device_mgr));
}

// A peer of a server: a task of its own, with one connection.
class Peer {
 public:
  explicit Peer(const std::string& address) {
    task::TaskOptions options;
    options.pipe = ReadSettings("worker").pipe;
    options.pipe.name = "worker:0";
    options.pipe.incarnation = 1;
    auto task = task::Task::Start(std::move(options));
    EXPECT_TRUE(task.ok()) << task.status().ToString();
    task_ = std::move(task).value();
    rpc::ClientOptions of_client;
    of_client.patience_ns = 0;
    client_ = std::make_unique<rpc::Client>(*task_, transport::Address::Parse(address).value(), of_client);
  }
  rpc::Client& client() { return *client_; }
  Status Echo() {
    std::string head;
    AppendFixed64(&head, 3);
    return client_->Ask(kEcho, head, Buffers(), 10 * kSecondNs).status;
  }

 private:
  std::unique_ptr<task::Task> task_;
  std::unique_ptr<rpc::Client> client_;
};

TEST_F(ServerSnapshotsTest, AServerWithASuccessorStopsServing) {
  setenv("FUSEWIRE_SNAPSHOT_EVERY", "0.05", 1);
  const tensorflow::DeviceMgr* devices = DevicesOfAServer();
  const Owner first = TheOwner();
  EXPECT_EQ(first.epoch, 1u);
  Peer of_first(first.address);
  EXPECT_TRUE(of_first.Echo().ok());
  // A call that is under way: for a tensor that nobody makes.
  std::string head;
  KeyNames names;
  names.Begin(1, &head);
  names.Append(tensorflow::Rendezvous::CreateKey("/job:ps/replica:0/task:0/device:CPU:0", StateOf(*devices),
                                                 "/job:worker/replica:0/task:0/device:CPU:0", "never",
                                                 tensorflow::FrameAndIter(0, 0)),
               /*step=*/7, &head);
  reactor::Completion ended;
  rpc::SimpleCall call(kReceive, [&ended](Status status) { ended.Done(std::move(status)); });
  call.head = head;
  call.timeout_ns = 10 * kSecondNs;
  of_first.client().Start(&call);
  EXPECT_TRUE(of_first.Echo().ok());
  EXPECT_FALSE(ended.done());

  // One that had asked it would have left it the task.
  std::unique_ptr<Snapshots> successor;
  ASSERT_TRUE(Snapshots::Open(ReadSettings("ps").snapshots, DefOf("star_server", "ps"), &successor).ok());
  ASSERT_TRUE(ended.Wait(of_first.client().home()));
  EXPECT_EQ(ended.status().code(), Code::kUnavailable) << ended.status().ToString();
  EXPECT_EQ(of_first.Echo().code(), Code::kUnavailable);
  const Owner second = TheOwner();
  EXPECT_EQ(second.epoch, 2u);
  EXPECT_NE(second.holder, first.holder);
}

TEST_F(ServerSnapshotsTest, AServerThatAnswersKeepsItsTask) {
  DevicesOfAServer();
  const Owner first = TheOwner();
  DevicesOfAServer();
  EXPECT_EQ(TheOwner().epoch, 1u);
  EXPECT_EQ(TheOwner().holder, first.holder);
  EXPECT_TRUE(Peer(first.address).Echo().ok());
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    tensorflow::SessionOptions options;
    options.target = TheServer().target();
    tensorflow::Session* session = nullptr;
    TfStatus made = Session::Make(options, &session);
    EXPECT_TRUE(made.ok()) << made;
    session_.reset(session);
    TfStatus created = session_->Create(SomeGraph());
    EXPECT_TRUE(created.ok()) << created;
  }
  TfStatus Run(const std::vector<std::string>& fetches, int64_t limit_ms = 0) {
    tensorflow::RunOptions options;
    options.set_timeout_in_ms(limit_ms);
    tensorflow::RunMetadata metadata;
    return session_->Run(options, {{"fed", Tensor(2.0F)}}, fetches, {}, &outputs_, &metadata);
  }

  std::unique_ptr<tensorflow::Session> session_;
  std::vector<Tensor> outputs_;
};

TEST_F(SessionTest, RunsItsStepsAndFetchesATensorAsOftenAsItIsNamed) {
  TfStatus run = Run({"negative:0", "negative:0"});
  ASSERT_TRUE(run.ok()) << run;
  ASSERT_EQ(outputs_.size(), 2u);
  EXPECT_EQ(outputs_[0].scalar<float>()(), -2);
  EXPECT_EQ(outputs_[1].scalar<float>()(), -2);
}

TEST_F(SessionTest, AStepEndsByItsLimit) {
  TfStatus run = Run({"never:0"}, /*limit_ms=*/200);
  EXPECT_TRUE(absl::IsDeadlineExceeded(run)) << run;
  EXPECT_EQ(run.message(), "Operation timed out.");
  EXPECT_TRUE(Run({"negative:0"}).ok());  // and the session still works
}

TEST_F(SessionTest, AnErrorOfAStepIsTensorFlows) {
  TfStatus run = Run({"nothing:0"});
  EXPECT_FALSE(run.ok());
  EXPECT_THAT(std::string(run.message()), HasSubstr("nothing"));
}

TEST_F(SessionTest, OnceClosedItRunsNothing) {
  ASSERT_TRUE(session_->Close().ok());
  EXPECT_FALSE(Run({"negative:0"}).ok());
}

}  // namespace
}  // namespace fusewire::tf
