// What Python's `health` and `find_nan` found, each with the way to it.

import { hasServer } from "../../state/server";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";

const mostListed = 40;

export function FindingList() {
  const found = stage.findings.value;
  const broken = stage.marks.value.broken;
  const first = stage.firstBroken();
  return (
    <>
      {broken.size > 0 && (
        <p class="mistake">
          {say("trace.brokenCount", { count: broken.size })}{" "}
          <button
            type="button"
            class="link"
            translate={false}
            onClick={() => stage.reveal({ node: first })}
          >
            {stage.name(first)}
          </button>
        </p>
      )}
      {!hasServer && <p class="hint">{say("trace.healthNeedsPython")}</p>}
      {hasServer && !found && <p class="hint">{stage.noFindings.value || say("trace.asking")}</p>}
      {found?.length === 0 && <p>{say("trace.healthy")}</p>}
      <ul class="findings">
        {found?.slice(0, mostListed).map((finding, i) => (
          <li key={i} data-finding={finding.kind} translate={false}>
            <button
              type="button"
              class="link"
              onClick={() => {
                const node = finding.nodes[0];
                if (node !== undefined && node < stage.trace.nodes.length) stage.reveal({ node });
              }}
            >
              {finding.kind}: {finding.layer}
            </button>
            <p>{finding.text}</p>
            {finding.chain && <p class="chain">{finding.chain}</p>}
            {finding.fix && <p class="hint">{finding.fix}</p>}
          </li>
        ))}
      </ul>
      {(found?.length ?? 0) > mostListed && (
        <p class="hint">{say("trace.more", { count: found!.length - mostListed })}</p>
      )}
    </>
  );
}
