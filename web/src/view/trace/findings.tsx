// What Python's `health` and `find_nan` found, each with the way to it.

import { hasServer } from "../../state/server";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import type { Finding } from "../../trace/description";
import { ItemLink, Picks } from "./pieces";

const mostListed = 40;

export function FindingList() {
  const found = stage.findings.value;
  const { broken } = stage.marks.value;
  const compared = Boolean(stage.trace.comparison);
  return (
    <>
      {broken.size > 0 && (
        <p class="mistake">
          {say("trace.brokenCount", { count: broken.size })}{" "}
          <ItemLink item={{ node: stage.firstBroken() }} />
        </p>
      )}
      {!hasServer && !compared && <p class="hint">{say("trace.healthNeedsPython")}</p>}
      {hasServer && !found && <p class="hint">{stage.noFindings.value || say("trace.asking")}</p>}
      {found?.length === 0 && <p>{say(compared ? "trace.equal" : "trace.healthy")}</p>}
      <Picks of={found ?? []} most={mostListed} class="findings">
        {(finding) => (
          <div data-finding={finding.kind} translate={false}>
            <Title finding={finding} />
            <FindingText finding={finding} />
          </div>
        )}
      </Picks>
    </>
  );
}

function Title({ finding: { kind, layer, nodes } }: { finding: Finding }) {
  const [node] = nodes;
  const text = `${kind}: ${layer}`;
  return node === undefined ? <p>{text}</p> : <ItemLink item={{ node }} text={text} />;
}

export function FindingText({ finding: { text, chain, line, fix } }: { finding: Finding }) {
  return (
    <div translate={false}>
      <p>{text}</p>
      {line && <p class="chain">{line}</p>}
      {chain && <p class="chain">{chain}</p>}
      {fix && <p class="hint">{fix}</p>}
    </div>
  );
}
