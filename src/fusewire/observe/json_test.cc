// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/json.h"

#include <gtest/gtest.h>

#include <string>

namespace fusewire::observe {
namespace {

TEST(Json, AnyBytesBecomeAText) {
  std::string out;
  AppendJsonText(std::string("a\"\\\n\x7f\xff\0z", 8), &out);
  EXPECT_EQ(out, "\"a\\\"\\\\\\u000a\\u007f\\u00ff\\u0000z\"");
}

TEST(Json, CommasAreBetweenValues) {
  std::string out;
  JsonWriter json(&out);
  json.Open('{');
  json.Key("a").Open('[');
  json.Number(1);
  json.Signed(-2);
  json.Bool(true);
  json.Open('{');
  json.Close('}');
  json.Close(']');
  json.Key("b").Text("c");
  json.Key("d").Raw("null");
  const int numbers[] = {3, 4};
  json.Key("e").Objects(numbers, [&json](int number) { json.Key("f").Signed(number); });
  json.Close('}');
  EXPECT_EQ(out, R"({"a":[1,-2,true,{}],"b":"c","d":null,"e":[{"f":3},{"f":4}]})");
}

}  // namespace
}  // namespace fusewire::observe
