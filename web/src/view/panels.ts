// The panels beside the graph. To add one: a file in panels/, and a line here.

import type { ComponentType } from "preact";

import { ByHandPanel } from "./panels/byhand";
import { CodePanel } from "./panels/code";
import { InspectPanel } from "./panels/inspect";
import { OrderPanel } from "./panels/order";
import { TypePanel } from "./panels/type";
import { WhyPanel } from "./panels/why";

export interface Panel {
  name: string; // words: panel.<name>; also what links call it
  key: string; // shows it
  component: ComponentType;
  showsSelection?: boolean; // if not, picking something in the graph shows the inspector
}

export const panels: Panel[] = [
  { name: "inspect", key: "i", component: InspectPanel, showsSelection: true },
  { name: "why", key: "w", component: WhyPanel, showsSelection: true },
  { name: "order", key: "o", component: OrderPanel, showsSelection: true },
  { name: "byhand", key: "h", component: ByHandPanel, showsSelection: true },
  { name: "code", key: "c", component: CodePanel },
  { name: "type", key: "t", component: TypePanel },
];
