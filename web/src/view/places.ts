// What can fill the page. To add a place: a component, and a line here. One that is not shown at
// first is a part of its own, which loads when it is opened.

import type { ComponentType } from "preact";

import { lazy } from "./lazy";
import { TracePlace } from "./trace/place";
import { Workbench } from "./workbench";

export const places: Record<string, ComponentType> = {
  graph: Workbench,
  lesson: lazy(() => import("./lessons/place").then((part) => part.LessonPlace)),
  playground: lazy(() => import("./playground/place").then((part) => part.PlaygroundPlace)),
  trace: TracePlace,
};
