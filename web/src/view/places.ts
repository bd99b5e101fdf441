// What can fill the page. To add a place: a component, and a line here.

import type { ComponentType } from "preact";

import { LessonPlace } from "./lessons/place";
import { TracePlace } from "./trace/place";
import { Workbench } from "./workbench";

export const places: Record<string, ComponentType> = {
  graph: Workbench,
  lesson: LessonPlace,
  trace: TracePlace,
};
