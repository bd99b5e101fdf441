// Asking Python, where there is a server: see "What the server answers" in docs/develop/studio-design.md.

import { boot } from "./boot";
import { say } from "./words";

const kept = "gradwalk.token";

/** The token comes once, in the address; a page that is loaded again finds it in the session. */
function findToken(): string {
  if (boot.mode !== "server") return "";
  const given = /[#&]token=([\w-]+)/.exec(location.hash)?.[1];
  try {
    if (given) sessionStorage.setItem(kept, given);
    return given ?? sessionStorage.getItem(kept) ?? "";
  } catch {
    return given ?? "";
  }
}

/** With it in its address a page may ask: see `currentAddress`. */
export const token = findToken();

/** Whether there is a Python to ask. */
export const hasServer: boolean = boot.mode === "server";

/** What the server says no with, in its own words; of one that does not answer, in ours. */
export class ServerError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** GET, or POST with a body: an object is sent as JSON, a file as it is. */
export async function ask<Answer>(path: string, body?: object | Blob): Promise<Answer> {
  const sent = body === undefined || body instanceof Blob ? body : JSON.stringify(body);
  const answer = await fetch(`api/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      "X-Gradwalk-Token": token,
      ...(typeof sent === "string" && { "Content-Type": "application/json" }),
    },
    body: sent ?? null,
  }).catch(() => {
    throw new ServerError(0, say("server.stopped"));
  });
  const found = (await answer.json()) as Answer & { error?: string };
  if (!answer.ok) throw new ServerError(answer.status, found.error ?? answer.statusText);
  return found;
}
