// The interactive cores of lessons, by name. To add one: a file here with its component, a line below,
// and its fields in src/gradwalk/course/cores.json (docs/develop/lessons.md says how).

import type { ComponentType } from "preact";

import type { Computed } from "../../../engine/types";
import type { Block } from "../../../lessons/reader";
import { Arrive } from "./arrive";
import { Build } from "./build";
import { Carry } from "./carry";
import { Depth } from "./networks/depth";
import { Editor } from "./networks/editor";
import { Fit } from "./networks/fit";
import { Loop } from "./networks/loop";
import { Mask } from "./networks/mask";
import { Race } from "./networks/race";
import { Softmax } from "./networks/softmax";
import { Nudge } from "./nudge";
import { Ruler } from "./ruler";
import { Sort } from "./sort";
import { Checkpoint } from "./trust/checkpoint";
import { Cost } from "./trust/cost";
import { Doubling } from "./trust/doubling";
import { Epsilon } from "./trust/epsilon";
import { Hunt } from "./trust/hunt";

export interface CoreProps {
  lesson: string;
  block: Block; // block.data has the core's own fields
  numbers: Computed | null; // of the block's graph
  done: boolean;
  finish: () => void; // the learner has reached what `ask` asks for
}

/** They load with the lessons; what is large beside them uses `lazy` (view/lazy.tsx). */
export const cores: Record<string, ComponentType<CoreProps>> = {
  arrive: Arrive,
  build: Build,
  carry: Carry,
  checkpoint: Checkpoint,
  cost: Cost,
  depth: Depth,
  doubling: Doubling,
  editor: Editor,
  epsilon: Epsilon,
  fit: Fit,
  hunt: Hunt,
  loop: Loop,
  mask: Mask,
  nudge: Nudge,
  race: Race,
  ruler: Ruler,
  softmax: Softmax,
  sort: Sort,
};
