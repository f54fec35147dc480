// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: star/cut/postpone.cc
#include "fusewire/tf/star/cut/grouping.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/star/cut/sketch_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::DT_BOOL;
using tensorflow::DT_FLOAT;
using tensorflow::Edge;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

// "task:round:node,node" for each group.
std::vector<std::string> WordsOfGroups(const Grouping& grouping) {
  std::vector<std::string> words;
  for (const Grouping::Group& group : grouping.groups) {
    std::vector<std::string> names;
    for (const Node* node : group.nodes) names.push_back(node->name());
    words.push_back(
        absl::StrCat(group.device == Sketch::kPs ? 0 : 1, ":", group.round, ":", absl::StrJoin(names, ",")));
  }
  return words;
}

// A model of one variable on each server: what is read, and what is updated with a gradient of all.
void DrawStep(Sketch* sketch, const std::vector<std::string>& servers) {
  Node* loss = sketch->Fed("labels", Sketch::kWorker);
  std::vector<Node*> variables, updates;
  for (const std::string& server : servers) {
    variables.push_back(sketch->Variable(absl::StrCat("weights", variables.size()), server));
    Node* read = sketch->Read(absl::StrCat("read", variables.size() - 1), variables.back());
    loss = sketch->Sum(absl::StrCat("loss", variables.size() - 1), Sketch::kWorker, read, loss);
  }
  for (Node* variable : variables)
    updates.push_back(sketch->Update(absl::StrCat("update", updates.size()), variable, loss));
  Node* one = sketch->Constant("one", Sketch::kPs, 1.0F);
  sketch->Update("count", sketch->Variable("step", Sketch::kPs), one, updates);
}

TEST(StarGrouping, StepOfOneServerIsAPullAndAPush) {
  Sketch sketch;
  DrawStep(&sketch, {Sketch::kPs});
  EXPECT_THAT(WordsOfGroups(sketch.Group()), ElementsAre("0:1:read0", "0:3:count,update0"));
}

TEST(StarGrouping, StepIsCountedWhenBothServersHaveUpdated) {
  Sketch sketch;
  DrawStep(&sketch, {Sketch::kPs, Sketch::kOtherPs});
  EXPECT_THAT(WordsOfGroups(sketch.Group()),
              UnorderedElementsAre("0:1:read0", "1:1:read1", "0:3:update0", "1:3:update1", "0:5:count"));
  // The node that counts can update in the same group.
  EXPECT_THAT(WordsOfGroups(sketch.Group(true)),
              UnorderedElementsAre("0:1:read0", "1:1:read1", "1:3:update1", "0:5:count,update0"));
}

TEST(StarGrouping, WhatIsReadForTheNextStepHasAGroupOfItsOwn) {
  for (bool merge : {false, true}) {
    Sketch sketch;
    Node* variable = sketch.Variable("weights", Sketch::kPs);
    sketch.Read("ahead", variable)->AddAttr(kAheadAttribute, true);
    sketch.Update("update", variable, sketch.Fed("gradient", Sketch::kWorker));
    EXPECT_THAT(WordsOfGroups(sketch.Group(merge)), UnorderedElementsAre("0:1:ahead", "0:1:update"));
  }
}

// `ids` are looked up; what is made of them is used with the gradient only.
TEST(StarGrouping, WhatOnlyALaterGroupUsesIsComputedThere) {
  for (bool merge : {false, true}) {
    Sketch sketch;
    Node* ids = sketch.Fed("ids", Sketch::kWorker);
    Node* flat = sketch.Op("flat", "Neg", Sketch::kPs, {ids});
    Node* row = sketch.Op("row", "Mul", Sketch::kPs, {flat, sketch.Read("read", sketch.Variable("w", Sketch::kPs))});
    Node* once = sketch.Op("once", "Square", Sketch::kPs, {flat});
    Node* count = sketch.Op("count", "Exp", Sketch::kPs, {once});
    Node* gradient = sketch.Op("gradient", "Neg", Sketch::kWorker, {row});
    Node* rows = sketch.Op("rows", "Mul", Sketch::kPs, {gradient, count});
    sketch.Update("update", sketch.Variable("v", Sketch::kPs), sketch.Sum("sum", Sketch::kPs, rows, once));
    // `flat` is used by the lookup, too; it is what is kept.
    EXPECT_THAT(WordsOfGroups(sketch.Group(merge)), ElementsAre("0:1:flat,read,row", "0:3:count,once,rows,sum,update"));
  }
}

TEST(StarGrouping, WhatCameWithALookupIsNotSentAgainForALaterGroup) {
  Sketch sketch;
  Node* ids = sketch.Fed("ids", Sketch::kWorker);
  Node* read = sketch.Read("read", sketch.Variable("w", Sketch::kPs));
  Node* row = sketch.Op("row", "Mul", Sketch::kPs, {ids, read});
  Node* size = sketch.Op("size", "Square", Sketch::kPs, {ids});
  Node* other = sketch.Op("other", "Square", Sketch::kPs, {sketch.Fed("other_ids", Sketch::kWorker)});
  Node* both = sketch.Op("both", "Mul", Sketch::kPs, {read, row});  // two values would be kept for it, instead of one
  Node* gradient = sketch.Op("gradient", "Neg", Sketch::kWorker, {row});
  Node* more = sketch.Sum("more", Sketch::kPs, gradient, size);
  sketch.Update("update", sketch.Variable("v", Sketch::kPs), sketch.Sum("sum", Sketch::kPs, more, other));
  sketch.Update("also", sketch.Variable("u", Sketch::kPs), sketch.Sum("rest", Sketch::kPs, gradient, both));
  EXPECT_THAT(WordsOfGroups(sketch.Group()),
              ElementsAre("0:1:both,read,row,size", "0:3:also,more,other,rest,sum,update"));
}

TEST(StarGrouping, SourcesAreCopiedAndRunInNoGroup) {
  Sketch sketch;
  DrawStep(&sketch, {Sketch::kPs});
  Grouping grouping = sketch.Group();
  for (const char* name : {"weights0", "step", "one"}) {
    size_t id = static_cast<size_t>(sketch.Find(name)->id());
    EXPECT_TRUE(grouping.is_source[id]) << name;
    EXPECT_EQ(grouping.group_of[id], Grouping::kNone) << name;
  }
  EXPECT_FALSE(grouping.is_source[static_cast<size_t>(sketch.Find("read0")->id())]);
}

TEST(StarGrouping, SourceThatTheWorkerNeedsRunsOnTheServer) {
  Sketch sketch;
  Node* two = sketch.Constant("two", Sketch::kPs, 2.0F);
  sketch.Sum("four", Sketch::kWorker, two, two);
  EXPECT_THAT(WordsOfGroups(sketch.Group()), ElementsAre("0:1:two"));
}

TEST(StarGrouping, AConstantThatWaitsIsNotASource) {
  Sketch sketch;
  Node* variable = sketch.Variable("weights", Sketch::kPs);
  Node* update = sketch.Update("update", variable, sketch.Fed("fed", Sketch::kWorker));
  Node* one = sketch.Constant("one", Sketch::kPs, 1.0F);
  sketch.graph.AddControlEdge(update, one);
  sketch.Update("count", sketch.Variable("step", Sketch::kPs), one);
  EXPECT_THAT(WordsOfGroups(sketch.Group()), ElementsAre("0:1:count,one,update"));
}

TEST(StarGrouping, ConditionsWithinAGroupAreAllowed) {
  Sketch sketch;
  Node* value = sketch.Read("value", sketch.Variable("variable", Sketch::kPs));
  Node* choice = sketch.Fed("choice", Sketch::kPs, DT_BOOL);
  Node* either = sketch.Op("either", "Switch", Sketch::kPs, {value, choice});
  Node* negated = sketch.Op("negated", "Neg", Sketch::kPs, {{either, 0}});
  Node* squared = sketch.Op("squared", "Square", Sketch::kPs, {{either, 1}});
  Node* merged = sketch.Merge("merged", Sketch::kPs, {negated, squared});
  sketch.Op("used", "Neg", Sketch::kWorker, {merged});
  Grouping grouping = sketch.Group();
  EXPECT_THAT(WordsOfGroups(grouping), ElementsAre("0:1:choice,either,merged,negated,squared,value"));
  auto conditions = [&grouping](const Node* node) { return grouping.conditions[static_cast<size_t>(node->id())]; };
  EXPECT_TRUE(conditions(merged).empty());
  EXPECT_TRUE(conditions(either).empty());
  ASSERT_EQ(conditions(squared).size(), 1);
  EXPECT_EQ(conditions(squared)[0].node, choice);
  EXPECT_EQ(conditions(squared)[0].branch, 1);
  ASSERT_EQ(conditions(negated).size(), 1);
  EXPECT_EQ(conditions(negated)[0].branch, 0);
}

TEST(StarGrouping, NestedConditionsStayInside) {
  Sketch sketch;
  Node* value = sketch.Fed("value", Sketch::kPs);
  Node* outer = sketch.Fed("outer", Sketch::kPs, DT_BOOL);
  Node* inner = sketch.Fed("inner", Sketch::kPs, DT_BOOL);
  Node* first = sketch.Op("first", "Switch", Sketch::kPs, {value, outer});
  Node* inner_there = sketch.Op("inner_there", "Switch", Sketch::kPs, {inner, outer});
  Node* second = sketch.Op("second", "Switch", Sketch::kPs, {{first, 1}, {inner_there, 1}});
  Node* deep = sketch.Op("deep", "Neg", Sketch::kPs, {{second, 0}});
  Node* merged = sketch.Merge("merged", Sketch::kPs, {deep, {second, 1}});
  Node* all = sketch.Merge("all", Sketch::kPs, {merged, {first, 0}});
  sketch.Op("used", "Neg", Sketch::kWorker, {all});
  Grouping grouping = sketch.Group();
  EXPECT_EQ(grouping.groups.size(), 1);
  EXPECT_TRUE(grouping.to_home.empty());
  EXPECT_EQ(grouping.conditions[static_cast<size_t>(deep->id())].size(), 2);
  EXPECT_EQ(grouping.conditions[static_cast<size_t>(merged->id())].size(), 1);
  EXPECT_TRUE(grouping.conditions[static_cast<size_t>(all->id())].empty());
}

TEST(StarGrouping, BranchesOfTheWorkerAreKeptApart) {
  Sketch sketch;
  Node* value = sketch.Fed("value", Sketch::kWorker);
  Node* either =
      sketch.Op("either", "Switch", Sketch::kWorker, {value, sketch.Fed("choice", Sketch::kWorker, DT_BOOL)});
  Node* variable = sketch.Variable("variable", Sketch::kPs);
  sketch.Update("if_not", variable, {either, 0});
  sketch.Update("if_so", variable, {either, 1});
  sketch.Update("always", variable, value);
  EXPECT_THAT(WordsOfGroups(sketch.Group()), UnorderedElementsAre("0:1:if_not", "0:1:if_so", "0:1:always"));
}

// tf.switch_case chooses by a number, even of two branches.
TEST(StarGrouping, BranchesWithNumbersAreKeptApart) {
  for (int branches : {2, 4}) {
    Sketch sketch;
    Node* value = sketch.Fed("value", Sketch::kWorker);
    Node* number = sketch.Fed("number", Sketch::kWorker, tensorflow::DT_INT32);
    auto chosen = [&](const std::string& name, const std::string& device) {
      return sketch.Add(NodeBuilder(name, "_SwitchN").Input(value).Input(number).Attr("num_outs", branches), device);
    };
    Node* here = chosen("here", Sketch::kPs);
    Node* there = chosen("there", Sketch::kWorker);
    sketch.Op("first", "Neg", Sketch::kPs, {{there, branches - 2}});
    sketch.Op("second", "Neg", Sketch::kPs, {{there, branches - 1}});
    sketch.Op("third", "Neg", Sketch::kPs, {{here, branches - 1}});
    Grouping grouping = sketch.Group();
    EXPECT_THAT(WordsOfGroups(grouping), UnorderedElementsAre("0:1:first", "0:1:second,third"));
    EXPECT_THAT(grouping.left, ElementsAre(Pair("control flow", 1)));
  }
}

TEST(StarGrouping, MergeOfTheWorkersBranchesGoesHome) {
  Sketch sketch;
  Node* value = sketch.Fed("value", Sketch::kWorker);
  Node* either =
      sketch.Op("either", "Switch", Sketch::kWorker, {value, sketch.Fed("choice", Sketch::kWorker, DT_BOOL)});
  Node* on_server = sketch.Op("on_server", "Neg", Sketch::kPs, {{either, 0}});
  Node* merged = sketch.Merge("merged", Sketch::kPs, {on_server, {either, 1}});
  sketch.Op("after", "Neg", Sketch::kPs, {merged});
  Grouping grouping = sketch.Group();
  EXPECT_THAT(grouping.to_home, ElementsAre(merged));
  EXPECT_THAT(WordsOfGroups(grouping), ElementsAre("0:1:on_server", "0:3:after"));
}

TEST(StarGrouping, LoopsAreLeft) {
  Sketch sketch;
  Node* begin = sketch.Fed("begin", Sketch::kWorker);
  Node* enter = sketch.Add(NodeBuilder("enter", "Enter").Input(begin).Attr("frame_name", "loop"), Sketch::kWorker);
  Node* turn = sketch.Merge("turn", Sketch::kWorker, {enter, enter});
  Node* goes_on =
      sketch.Op("goes_on", "LoopCond", Sketch::kWorker, {sketch.Op("is_more", "IsFinite", Sketch::kWorker, {turn})});
  Node* either = sketch.Op("either", "Switch", Sketch::kWorker, {turn, goes_on});
  Node* body = sketch.Op("body", "Neg", Sketch::kPs, {{either, 1}});
  Node* next = sketch.Op("next", "NextIteration", Sketch::kWorker, {body});
  const Edge* again = nullptr;
  ASSERT_TRUE(turn->input_edge(1, &again).ok());
  sketch.graph.RemoveEdge(again);
  sketch.graph.AddEdge(next, 0, turn, 1);
  Node* end = sketch.Op("end", "Exit", Sketch::kWorker, {{either, 0}});
  sketch.Op("after", "Neg", Sketch::kPs, {end});
  Grouping grouping = sketch.Group();
  EXPECT_THAT(WordsOfGroups(grouping), ElementsAre("0:1:after"));
  EXPECT_THAT(grouping.left, ElementsAre(Pair("in a loop", 1)));
}

TEST(StarGrouping, HandlesStayInTheirGroup) {
  Sketch sketch;
  Node* shape = sketch.Constant("shape", Sketch::kPs, tensorflow::Tensor(-1));
  Node* list = sketch.Add(
      NodeBuilder("list", "EmptyTensorList").Input(shape).Input(shape).Attr("element_dtype", DT_FLOAT), Sketch::kPs);
  Node* read = sketch.Read("read", sketch.Variable("variable", Sketch::kPs));
  Node* here = sketch.Op("here", "TensorListPushBack", Sketch::kPs, {list, read});
  Node* later = sketch.Op("later", "TensorListPushBack", Sketch::kPs,
                          {here, sketch.Op("negated", "Neg", Sketch::kWorker, {read})});
  sketch.Op("length", "TensorListLength", Sketch::kPs, {later});
  Grouping grouping = sketch.Group();
  // The tensors before the list are sent; nodes that hold the list stay with send and receive.
  EXPECT_EQ(grouping.left["a handle from elsewhere"], 4);
  for (const char* name : {"list", "here", "later", "length"})
    EXPECT_EQ(grouping.group_of[static_cast<size_t>(sketch.Find(name)->id())], Grouping::kNone) << name;
  EXPECT_NE(grouping.group_of[static_cast<size_t>(read->id())], Grouping::kNone);
}

TEST(StarGrouping, OnlyNodesBehindAQueueWaitForIt) {
  Sketch sketch;
  Node* queue = sketch.Add(NodeBuilder("queue", "FIFOQueueV2").Attr("component_types", {DT_FLOAT}), Sketch::kPs);
  Node* taken =
      sketch.Add(NodeBuilder("taken", "QueueDequeueV2").Input(queue).Attr("component_types", {DT_FLOAT}), Sketch::kPs);
  Node* read = sketch.Read("read", sketch.Variable("variable", Sketch::kPs));
  sketch.Op("behind", "Neg", Sketch::kPs, {taken});
  sketch.Op("beside", "Neg", Sketch::kPs, {read});
  for (bool merge : {false, true})
    EXPECT_THAT(WordsOfGroups(sketch.Group(merge)), UnorderedElementsAre("0:1:behind,taken", "0:1:beside,read"));
}

TEST(StarGrouping, LiteLetsAGroupWaitForTheNext) {
  Sketch sketch;
  DrawStep(&sketch, {Sketch::kPs});
  // No node needs it before the step's end.
  sketch.Update("by_itself", sketch.Variable("apart", Sketch::kPs), sketch.Fed("more", Sketch::kWorker));
  EXPECT_EQ(sketch.Group().groups.size(), 2);
  EXPECT_EQ(sketch.Group(true).groups.size(), 2);
  Sketch late;
  Node* variable = late.Variable("variable", Sketch::kPs);
  Node* fed = late.Fed("fed", Sketch::kWorker);
  late.Update("early", variable, fed);
  Node* away = late.Op("away", "Neg", Sketch::kOtherPs, {fed});
  late.Update("late", variable, late.Op("home", "Neg", Sketch::kWorker, {away}));
  EXPECT_THAT(WordsOfGroups(late.Group()), UnorderedElementsAre("0:1:early", "1:1:away", "0:3:late"));
  EXPECT_THAT(WordsOfGroups(late.Group(true)), UnorderedElementsAre("1:1:away", "0:3:early,late"));
}

// ---- of any graph ----

class RandomSketch : public Sketch {
 public:
  explicit RandomSketch(uint32_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      floats_.push_back(Fed(Name(), AnyDevice()));
      bools_.push_back(Fed(Name(), AnyDevice(), DT_BOOL));
    }
    for (int i = 0; i < 40; ++i) Grow();
  }

 private:
  size_t Draw(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }
  std::string Name() { return absl::StrCat("node", count_++); }
  std::string AnyDevice() {
    const char* devices[] = {kWorker, kWorker, kPs, kPs, kOtherPs};
    return devices[Draw(5)];
  }
  Out Float() { return floats_[Draw(floats_.size())]; }
  Node* Bool() { return bools_[Draw(bools_.size())]; }

  void Grow() {
    switch (Draw(9)) {
      case 0: {
        Node* either = Op(Name(), "Switch", AnyDevice(), {Float(), Bool()});
        floats_.emplace_back(either, 0);
        floats_.emplace_back(either, 1);
        break;
      }
      case 1:  // a whole condition
        GrowCondition();
        break;
      case 2: {
        Node* variable = Variable(Name(), Draw(2) == 0 ? kPs : kOtherPs);
        floats_.emplace_back(Read(Name(), variable));
        Update(Name(), variable, Float());
        break;
      }
      case 3: floats_.emplace_back(Merge(Name(), AnyDevice(), {Float(), Float()})); break;
      case 4: {
        Node* queue = Add(NodeBuilder(Name(), "FIFOQueueV2").Attr("component_types", {DT_FLOAT}), kPs);
        floats_.emplace_back(
            Add(NodeBuilder(Name(), "QueueDequeueV2").Input(queue).Attr("component_types", {DT_FLOAT}), kPs));
        break;
      }
      default: {
        Node* sum = Sum(Name(), AnyDevice(), Float(), Float());
        if (Draw(3) == 0) graph.AddControlEdge(Float().node, sum);
        floats_.emplace_back(sum);
      }
    }
  }
  void GrowCondition() {
    Node* either = Op(Name(), "Switch", AnyDevice(), {Float(), Bool()});
    Node* left = Op(Name(), "Neg", AnyDevice(), {{either, 0}});
    Node* right = Op(Name(), "Square", AnyDevice(), {{either, 1}});
    floats_.emplace_back(Merge(Name(), AnyDevice(), {left, right}));
  }

  std::mt19937 random_;
  int count_ = 0;
  std::vector<Out> floats_;
  std::vector<Node*> bools_;
};

bool IsCopied(const Grouping& grouping, const Edge* edge) {
  return grouping.is_source[static_cast<size_t>(edge->src()->id())] &&
         grouping.group_of[static_cast<size_t>(edge->dst()->id())] != Grouping::kNone &&
         edge->src()->assigned_device_name() == edge->dst()->assigned_device_name();
}

// Each group as one node: can all of them be run, one after the other?
bool IsAcyclic(const tensorflow::Graph& graph, const Grouping& grouping) {
  auto unit_of = [&grouping](const Node* node) {
    int group = grouping.group_of[static_cast<size_t>(node->id())];
    return group == Grouping::kNone ? node->id() : -2 - group;
  };
  std::map<int, std::set<int>> before;
  for (const Node* node : graph.op_nodes()) before[unit_of(node)];
  for (const Edge* edge : graph.edges()) {
    if (!edge->src()->IsOp() || !edge->dst()->IsOp() || IsCopied(grouping, edge)) continue;
    if (unit_of(edge->src()) != unit_of(edge->dst())) before[unit_of(edge->dst())].insert(unit_of(edge->src()));
  }
  std::set<int> done;
  for (bool more = true; more;) {
    more = false;
    for (auto unit = before.begin(); unit != before.end();) {
      bool is_ready = std::all_of(unit->second.begin(), unit->second.end(), [&](int each) { return done.count(each); });
      if (is_ready) done.insert(unit->first);
      more = more || is_ready;
      unit = is_ready ? before.erase(unit) : std::next(unit);
    }
  }
  return before.empty();
}

int LastRoundOf(const Grouping& grouping) {
  int last = 0;
  for (const Grouping::Group& group : grouping.groups) last = std::max(last, group.round);
  return last;
}

void ExpectInputsFromBefore(const tensorflow::Graph& graph, const Grouping& grouping) {
  for (const Edge* edge : graph.edges()) {
    if (!edge->src()->IsOp() || !edge->dst()->IsOp() || IsCopied(grouping, edge)) continue;
    int from = grouping.group_of[static_cast<size_t>(edge->src()->id())];
    int to = grouping.group_of[static_cast<size_t>(edge->dst()->id())];
    if (from == Grouping::kNone || to == Grouping::kNone || from == to) continue;
    EXPECT_LT(grouping.groups[static_cast<size_t>(from)].round, grouping.groups[static_cast<size_t>(to)].round)
        << edge->DebugString();
  }
}

TEST(StarGrouping, OfAnyGraphIsInOrder) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSketch sketch(seed);
    Grouping full = sketch.Group(), lite = sketch.Group(true);
    for (const Grouping* grouping : {&full, &lite}) {
      EXPECT_TRUE(IsAcyclic(sketch.graph, *grouping));
      ExpectInputsFromBefore(sketch.graph, *grouping);
      for (const Grouping::Group& group : grouping->groups) {
        for (const Node* node : group.nodes) EXPECT_EQ(node->assigned_device_name(), group.device);
      }
    }
    EXPECT_LE(lite.groups.size(), full.groups.size());
    EXPECT_LE(LastRoundOf(lite), LastRoundOf(full));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Kinds, OfOperationsThatWaitForOtherSteps) {
  for (const char* op : {"QueueDequeueV2", "QueueEnqueueManyV2", "BarrierTakeMany", "Stage", "AccumulatorTakeGradient",
                         "IteratorGetNext", "MutexLock", "EagerPyFunc", "BatchFunction", "UnbatchGrad"})
    EXPECT_TRUE(MayBlock(op)) << op;
  for (const char* op : {"MatMul", "BatchMatMulV2", "AssignAddVariableOp", "QueueSizeV2", "FakeQueue"})
    EXPECT_FALSE(MayBlock(op)) << op;
}

TEST(Kinds, OfOperationsThatTakeLong) {
  for (const char* op : {"QueueDequeueV2", "SaveV2", "RestoreV2", "ReadFile", "ReduceDataset", "MakeIterator"})
    EXPECT_TRUE(MayTakeLong(op)) << op;
  for (const char* op : {"MatMul", "ReadVariableOp"}) EXPECT_FALSE(MayTakeLong(op)) << op;
}

TEST(Kinds, OfOperationsThatSave) {
  for (const char* op : {"Save", "SaveSlices", "SaveV2"}) EXPECT_TRUE(SavesFiles(op)) << op;
  for (const char* op : {"RestoreV2", "MergeV2Checkpoints"}) EXPECT_FALSE(SavesFiles(op)) << op;
}

TEST(Kinds, OfOperationsThatBelongToTheSessionOrToOthers) {
  for (const char* op : {"_Send", "_Recv", "_Arg", "_Retval", "_HostRecv", "_FuseRecv", "CollectiveReduceV2",
                         "GetSessionHandleV2", "RemoteCall"})
    EXPECT_TRUE(BelongsElsewhere(op)) << op;
  for (const char* op : {"AddV2", "_SwitchN", "Identity"}) EXPECT_FALSE(BelongsElsewhere(op)) << op;
}

TEST(Kinds, OfNodes) {
  Sketch sketch;
  tensorflow::Node* variable = sketch.Variable("variable", Sketch::kPs);
  tensorflow::Node* read = sketch.Read("read", variable);
  tensorflow::Node* one = sketch.Constant("one", Sketch::kPs, 1);
  tensorflow::Node* fed = sketch.Fed("fed", Sketch::kWorker);
  tensorflow::Node* choice = sketch.Fed("choice", Sketch::kWorker, tensorflow::DT_BOOL);
  tensorflow::Node* two = sketch.Op("two", "Switch", Sketch::kPs, {one, choice});
  EXPECT_TRUE(IsNamed(*variable));
  EXPECT_TRUE(IsNamed(*one));
  EXPECT_FALSE(IsNamed(*fed));  // it has no inputs, and is computed all the same
  EXPECT_FALSE(IsNamed(*read));
  EXPECT_FALSE(HasInputs(*variable));
  EXPECT_TRUE(HasInputs(*read));
  EXPECT_TRUE(IsSwitchOfTwo(*two));
  EXPECT_FALSE(IsSwitchOfTwo(*read));
  EXPECT_TRUE(IsHandle(variable->output_type(0)));
  EXPECT_FALSE(IsHandle(read->output_type(0)));
  EXPECT_TRUE(IsHandle(tensorflow::DT_FLOAT_REF));
}

TEST(Kinds, OfASwitchWithManyBranches) {
  Sketch sketch;
  tensorflow::Node* one = sketch.Constant("one", Sketch::kPs, 1);
  tensorflow::Node* index = sketch.Fed("index", Sketch::kWorker, tensorflow::DT_INT32);
  tensorflow::Node* many =
      sketch.Add(Sketch::NodeBuilder("many", "_SwitchN").Input(one).Input(index).Attr("num_outs", 3), Sketch::kPs);
  EXPECT_TRUE(many->IsSwitch());
  EXPECT_FALSE(IsSwitchOfTwo(*many));
}

}  // namespace
}  // namespace fusewire::tf
