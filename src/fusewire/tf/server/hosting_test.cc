// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/hosting.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/tf/server/moving.h"
#include "fusewire/tf/server/server.h"
#include "fusewire/tf/server/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/graph.pb.h>
#include <tensorflow/core/public/session_options.h>

namespace fusewire::tf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A port that nobody has.
int FreePort() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  EXPECT_EQ(bind(file, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(getsockname(file, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(file);
  return ntohs(address.sin_port);
}

tensorflow::ServerDef DefOf(int tasks, int own = 0, const std::string& protocol = "star_server") {
  tensorflow::ServerDef def;
  def.set_protocol(protocol);
  def.set_job_name("ps");
  def.set_task_index(own);
  tensorflow::JobDef* job = def.mutable_cluster()->add_job();
  job->set_name("ps");
  for (int i = 0; i < tasks; ++i) (*job->mutable_tasks())[i] = "localhost:" + std::to_string(FreePort());
  return def;
}

TEST(TasksOfAProcess, AreThoseOfTheSettingWithoutTheServersOwn) {
  const tensorflow::ServerDef def = DefOf(4, /*own=*/1);
  EXPECT_THAT(ReadTasks("", def).value(), IsEmpty());
  EXPECT_THAT(ReadTasks("ps:1", def).value(), IsEmpty());
  EXPECT_THAT(ReadTasks("ps:1,ps:3", def).value(), ElementsAre(3));
  EXPECT_THAT(ReadTasks(" ps:2 , ps:0 ", def).value(), ElementsAre(2, 0));
}

TEST(TasksOfAProcess, AreNotGuessed) {
  const tensorflow::ServerDef def = DefOf(4);
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"ps", "\"ps\" is not a task"},
      {",", "\"\" is not a task"},
      {"ps:0,", "\"\" is not a task"},
      {":1", "\":1\" is not a task"},
      {"ps:", "\"ps:\" is not a task"},
      {"ps:-1", "\"ps:-1\" is not a task"},
      {"ps:+1", "\"ps:+1\" is not a task"},
      {"ps:1x", "\"ps:1x\" is not a task"},
      {"ps:0;ps:1", "the program's server is ps:0, and \"ps:0;ps:1\" is a task of another job"},
      {"ps:12345678901", "\"ps:12345678901\" is not a task"},
      {"ps:4", "the cluster has no \"ps:4\", but 4 tasks of this job"},
      {"ps:1,ps:01", "\"ps:01\" is named twice"},
      {"worker:0", "the program's server is ps:0, and \"worker:0\" is a task of another job"},
      {std::string(100, 'x') + "\n", "..."}};
  for (const auto& [text, words] : wrong) {
    Result<std::vector<int>> read = ReadTasks(text, def);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.status().cause(), HasSubstr("FUSEWIRE_TASKS is \""));
    EXPECT_THAT(read.status().cause(), HasSubstr(words));
    EXPECT_EQ(read.status().cause().find('\n'), std::string::npos);
    EXPECT_FALSE(read.status().next().empty());
  }
}

TEST(TasksOfAProcess, AreServedOnce) {
  Hosting one(0, false), other(0, false);
  EXPECT_TRUE(one.Begin("ps:0 here:1", nullptr).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(other.Begin("ps:0 here:1", nullptr)));
  {
    Hosting elsewhere(0, false);
    EXPECT_TRUE(elsewhere.Begin("ps:0 there:1", nullptr).ok());
  }
  EXPECT_TRUE(other.Begin("ps:0 there:1", nullptr).ok());
  other.End();
  one.End();
  EXPECT_TRUE(other.Begin("ps:0 here:1", nullptr).ok());
}

// Makes servers with FUSEWIRE_TASKS.
class HostingTest : public testing::Test {
 protected:
  ~HostingTest() override { unsetenv("FUSEWIRE_TASKS"); }
  // TensorFlow's servers live until the process ends, and so does this one.
  static TfStatus Make(const tensorflow::ServerDef& def, const char* tasks, Server** out) {
    setenv("FUSEWIRE_TASKS", tasks, 1);
    std::unique_ptr<tensorflow::ServerInterface> made;
    TfStatus status = Server::Make(def, {}, &made);
    EXPECT_EQ(status.ok(), made != nullptr);
    *out = static_cast<Server*>(made.release());
    return status;
  }
  // The negative of 2, computed at this task of the server's cluster.
  static TfStatus Run(const std::string& target, int task) {
    tensorflow::GraphDef graph;
    tensorflow::NodeDef* fed = graph.add_node();
    fed->set_name("fed");
    fed->set_op("Placeholder");
    (*fed->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
    tensorflow::NodeDef* negative = graph.add_node();
    negative->set_name("negative");
    negative->set_op("Neg");
    negative->add_input("fed");
    negative->set_device("/job:ps/task:" + std::to_string(task));
    (*negative->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    tensorflow::SessionOptions options;
    options.target = target;
    tensorflow::Session* made = nullptr;
    TF_RETURN_IF_ERROR(Session::Make(options, &made));
    const std::unique_ptr<tensorflow::Session> session(made);
    TF_RETURN_IF_ERROR(session->Create(graph));
    std::vector<tensorflow::Tensor> outputs;
    TF_RETURN_IF_ERROR(session->Run({{"fed", tensorflow::Tensor(2.0F)}}, {"negative:0"}, {}, &outputs));
    EXPECT_EQ(outputs.at(0).scalar<float>()(), -2);
    return TfStatus();
  }
};

TEST_F(HostingTest, AProcessServesSeveralTasksOfASession) {
  Server* server = nullptr;
  TfStatus made = Make(DefOf(3), "ps:0,ps:2,ps:1", &server);
  ASSERT_TRUE(made.ok()) << made;
  ASSERT_EQ(server->hosting().others().size(), 2u);
  TfStatus started = server->Start();
  ASSERT_TRUE(started.ok()) << started;
  for (int task = 0; task < 3; ++task) {
    TfStatus run = Run(server->target(), task);
    EXPECT_TRUE(run.ok()) << "ps:" << task << ": " << run;
  }
  TfStatus run = Run(server->hosting().others().at(2)->target(), 0);  // as a master
  EXPECT_TRUE(run.ok()) << run;
  EXPECT_TRUE(server->Start().ok());  // once more: nothing
}

TEST_F(HostingTest, TheOthersFollowToANewCluster) {
  Server* server = nullptr;
  tensorflow::ServerDef def = DefOf(2);
  ASSERT_TRUE(Make(def, "ps:0,ps:1", &server).ok());
  ASSERT_TRUE(server->Start().ok());
  (*def.mutable_cluster()->mutable_job(0)->mutable_tasks())[2] = "localhost:1";
  TfStatus updated = server->UpdateServerDef(def);
  ASSERT_TRUE(updated.ok()) << updated;
  std::vector<std::string> workers;
  server->hosting().others().at(1)->master_env()->worker_cache->ListWorkers(&workers);
  EXPECT_EQ(workers.size(), 3u);
}

TEST_F(HostingTest, ATaskIsServedOnce) {
  tensorflow::ServerDef def = DefOf(3);
  Server *server = nullptr, *second = nullptr;
  ASSERT_TRUE(Make(def, "ps:0,ps:1", &server).ok());
  def.set_task_index(1);
  TfStatus made = Make(def, "", &second);
  EXPECT_TRUE(absl::IsAlreadyExists(made)) << made;
  EXPECT_THAT(std::string(made.message()), HasSubstr("has a server for ps:1 localhost:"));
  // A second server of the program: the others are there.
  def.set_task_index(2);
  made = Make(def, "ps:0,ps:1", &second);
  ASSERT_TRUE(made.ok()) << made;
  EXPECT_THAT(second->hosting().others(), IsEmpty());
}

TEST_F(HostingTest, WithoutOneOfItsTasksThereIsNoServer) {
  tensorflow::ServerDef def = DefOf(3);
  // Somebody else has its port.
  Server *first = nullptr, *server = nullptr;
  tensorflow::ServerDef others = DefOf(1);
  (*others.mutable_cluster()->mutable_job(0)->mutable_tasks())[0] = def.cluster().job(0).tasks().at(2);
  ASSERT_TRUE(Make(others, "", &first).ok());
  for (int i = 0; i < 2; ++i) {  // a second attempt fails as well
    TfStatus made = Make(def, "ps:0,ps:1,ps:2", &server);
    ASSERT_FALSE(made.ok());
    EXPECT_FALSE(absl::IsAlreadyExists(made)) << made;
    if (i == 0) {
      EXPECT_THAT(std::string(made.message()),
                  HasSubstr("this process serves ps:0, but not ps:2, which is at localhost:"));
    }
  }
}

TEST_F(HostingTest, OnlyAProtocolOfOursServesSeveralTasks) {
  Server* server = nullptr;
  TfStatus made = Make(DefOf(2, 0, kStockProtocol), "ps:0,ps:1", &server);
  EXPECT_THAT(std::string(made.message()), HasSubstr("is to serve ps:1 too, but everything goes over gRPC"));
  EXPECT_TRUE(Make(DefOf(2, 0, kStockProtocol), "ps:0", &server).ok());
}

TEST_F(HostingTest, AWrongSettingIsReportedBeforeAnythingIsMade) {
  Server* server = nullptr;
  TfStatus made = Make(DefOf(2), "ps:0,ps:7", &server);
  EXPECT_TRUE(absl::IsInvalidArgument(made)) << made;
  EXPECT_THAT(std::string(made.message()), HasSubstr("the cluster has no \"ps:7\""));
}

TEST_F(HostingTest, OneAdvertisedPortIsNotForSeveralTasks) {
  setenv("FUSEWIRE_ADVERTISE", "outside:4000", 1);
  Server* server = nullptr;
  TfStatus made = Make(DefOf(2), "ps:0,ps:1", &server);
  unsetenv("FUSEWIRE_ADVERTISE");
  EXPECT_THAT(std::string(made.message()), HasSubstr("FUSEWIRE_ADVERTISE is \"outside:4000\""));
}

// Its port in the cluster is another machine's, and is not touched.
TEST_F(HostingTest, ATaskOfAnotherPlaceIsServedAtAnyPort) {
  const tensorflow::ServerDef def = DefOf(2);
  Server *server = nullptr, *elsewhere = nullptr, *adopted = nullptr, *again = nullptr;
  ASSERT_TRUE(Make(def, "", &server).ok());
  ASSERT_TRUE(server->Start().ok());
  tensorflow::ServerDef one = DefOf(1);
  (*one.mutable_cluster()->mutable_job(0)->mutable_tasks())[0] = def.cluster().job(0).tasks().at(1);
  ASSERT_TRUE(Make(one, "", &elsewhere).ok());
  TfStatus made = Server::Host(def, 1, Server::GrpcPort::kAny, &adopted);
  ASSERT_TRUE(made.ok()) << made;
  ASSERT_TRUE(adopted->Start().ok());
  EXPECT_NE(adopted->target(), elsewhere->target());
  TfStatus run = Run(adopted->target(), 1);
  EXPECT_TRUE(run.ok()) << run;
  EXPECT_TRUE(absl::IsAlreadyExists(Server::Host(def, 1, Server::GrpcPort::kAny, &again)));
}

}  // namespace
}  // namespace fusewire::tf
