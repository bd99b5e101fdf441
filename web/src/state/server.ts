// Asking Python, where there is a server: see "What the server answers" in docs/develop/studio-design.md.

import { boot } from "./boot";
import { writeAddress } from "./storage";
import { say } from "./words";

const kept = "gradwalk.token";

/**
 * The token comes once, in the address, which is cleared of it, and stays in memory. The session has
 * it while no page is open that could ask: from the end of one to the start of the next.
 */
function findToken(): string {
  if (!hasServer) return "";
  const named = /\btoken=([\w-]+)&?/;
  let found = named.exec(location.hash)?.[1] ?? "";
  writeAddress(location.href.replace(named, ""));
  try {
    const session = sessionStorage;
    onpagehide = () => (session[kept] = token);
    onpageshow = () => delete session[kept];
    found ||= session[kept] ?? "";
  } catch {
    // The browser keeps nothing: loaded again, the page needs the address again.
  }
  return found;
}

/** Whether there is a Python to ask. */
export const hasServer: boolean = boot.mode === "server";

/** With it in its address a page may ask: see `currentAddress`. */
export const token = findToken();

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
  const sent = !body || body instanceof Blob ? body : JSON.stringify(body);
  const answer = await fetch(`api/${path}`, {
    method: body ? "POST" : "GET",
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
