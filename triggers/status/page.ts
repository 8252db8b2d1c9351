/** The page of the status. */
import { html } from "hono/html";
import type { Status } from "../../functions/shared/contract/status.ts";

export async function renderPage(status: Status): Promise<string> {
  return String(await html`<!doctype html><html lang="en"><title>Sluice</title><p>${status.at}</p></html>`);
}
