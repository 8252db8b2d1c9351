import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { WebhookServer } from "./webhook-server.ts";

test("the webhook server of a case ends at once, though a client is still connecting to it", {
  timeout: 10_000,
}, async () => {
  const webhooks = await WebhookServer.start();
  const { port, hostname } = new URL(webhooks.urlOf(""));
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  await webhooks.close();
  socket.destroy();
});
