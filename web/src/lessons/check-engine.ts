// A learner's engine, checked by Python's own checker, where the page has a Python to ask.

import { ask, hasServer } from "../state/server";

export interface CheckedStage {
  key: string;
  title: string;
  right: number;
  tried: number;
  points: number;
  out_of: number;
}

/** As `gradwalk course check --json` writes it for one file. */
export interface CheckedFile {
  points: number;
  out_of: number;
  passed: boolean;
  /** Why it was not graded; empty if it was. */
  reason: string;
  stages: CheckedStage[];
  /** A title completes "It …". */
  mistakes: { key: string; title: string; text: string }[];
}

/** Whether there is a checker to ask: elsewhere there is the command line. */
export const canCheck = (): boolean => hasServer;

export const checkEngine = (source: string): Promise<CheckedFile> => ask("check", { source });

export const starter = async (): Promise<string> =>
  (await ask<{ starter: string }>("check")).starter;
