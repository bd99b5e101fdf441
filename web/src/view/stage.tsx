// Which stage a component is on: the page's own, or that of a graph in a lesson.

import { type ComponentChildren, createContext } from "preact";
import { useContext } from "preact/hooks";

import type { Stage } from "../state/stage";
import { stage as pageStage } from "../state/studio";

const StageContext = createContext<Stage>(pageStage);

export function useStage(): Stage {
  return useContext(StageContext);
}

export function StageProvider(props: { stage: Stage; children: ComponentChildren }) {
  return <StageContext.Provider value={props.stage}>{props.children}</StageContext.Provider>;
}
