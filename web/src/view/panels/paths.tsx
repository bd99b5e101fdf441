// Paths from the root that can be selected: names, factors, and what each brings.

import type { ComponentChildren } from "preact";

import { sameEdge } from "../../engine/graph";
import { countText, shortNumber } from "../../engine/numbers";
import type { Path } from "../../engine/types";
import { say } from "../../state/words";
import { Link, nodesOn, pathText } from "../parts";
import { useStage } from "../stage";
import { inBrackets, signed, signOf } from "../text";

/** For words with a plural: how many, and how it is written. */
export const counted = (count: bigint): { count: number; number: string } => ({
  count: Number(count),
  number: countText(count),
});

/** The largest of so many paths. */
export function PathPicks({ paths, count }: { paths: Path[]; count: bigint }) {
  const more = count - BigInt(paths.length);
  return (
    <>
      <ul class="picks paths">
        {paths.map((path, i) => (
          <PathPick key={i} path={path} amount={path.product} />
        ))}
      </ul>
      {more > 0n && <p class="hint">{say("why.morePaths", counted(more))}</p>}
    </>
  );
}

export function PathPick(props: { path: Path; amount: number; children?: ComponentChildren }) {
  const { path, amount } = props;
  const { edges, factors, product } = path;
  const stage = useStage();
  const nodes = edges.length ? nodesOn(path) : [stage.graph.value.root];
  const selected = stage.selection.value;
  const chosen =
    selected?.kind === "path" &&
    selected.path.edges.length === edges.length &&
    selected.path.edges.every((edge, i) => sameEdge(edge, edges[i]!));
  const written = factors.map((factor, i) => (i ? inBrackets(factor) : shortNumber(factor)));
  return (
    <li>
      <Link
        aria-pressed={chosen}
        onClick={() => (chosen ? stage.selectNode(nodes.at(-1)!) : stage.selectPath(path))}
        translate={false}
        data-path={stage.names(nodes, ">")}
        data-amount={amount}
      >
        {pathText(stage, path)}
        <span class={signOf(amount)}>
          {" "}
          {written.length > 1 && `${written.join(" × ")} = `}
          {signed(product)}
        </span>
      </Link>
      {props.children}
    </li>
  );
}
