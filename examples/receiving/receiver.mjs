// A receiver of Roundtrip's events in Node.js (18 or later), without any dependency. It verifies v1 (whsec_…) and v1a
// (whpk_…, the public key of an endpoint with signature_scheme v1a).
//
//     WEBHOOK_SECRET=whsec_… node receiver.mjs            # listens on 127.0.0.1:9000
//
// While a secret is being rotated, give both, with a space between. Ids that came are remembered in `received.ids`.

import { createHmac, createPublicKey, timingSafeEqual, verify } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";

const KEYS = process.env.WEBHOOK_SECRET.split(" ").filter(Boolean).map(keyOf);
const PORT = Number(process.env.PORT ?? 9000);
const IDS = process.env.IDS ?? "received.ids";
const TOLERANCE_SECONDS = 300;
const MAX_BYTES = 32 * 1024 * 1024;

function keyOf(text) {
  const [prefix, base64] = [text.slice(0, 6), text.slice(text.indexOf("_") + 1)];
  const raw = Buffer.from(base64, "base64");
  if (prefix === "whsec_") return { scheme: "v1", secret: raw };
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]); // RFC 8410: Ed25519, SPKI
  return { scheme: "v1a", key: createPublicKey({ key: der, format: "der", type: "spki" }) };
}

function fits(key, scheme, given, signed) {
  if (key.scheme !== scheme) return false;
  if (scheme === "v1a") return given.length === 64 && verify(null, signed, key.key, given);
  const ours = createHmac("sha256", key.secret).update(signed).digest();
  return ours.length === given.length && timingSafeEqual(ours, given);
}

// Whether one of our keys signed exactly these bytes, at most five minutes ago.
function isGenuine(headers, body) {
  const sentAt = headers["webhook-timestamp"] ?? "";
  if (!/^[0-9]{1,12}$/.test(sentAt) || Math.abs(Date.now() / 1000 - Number(sentAt)) > TOLERANCE_SECONDS) return false;
  const signed = Buffer.concat([Buffer.from(`${headers["webhook-id"]}.${sentAt}.`), body]); // the raw body
  return (headers["webhook-signature"] ?? "").split(" ").some((entry) => {
    const [scheme, base64 = ""] = entry.split(",");
    return KEYS.some((key) => fits(key, scheme, Buffer.from(base64, "base64"), signed));
  });
}

const seen = new Set(existsSync(IDS) ? readFileSync(IDS, "utf8").split("\n") : []);

// Handle each id once. Yours belongs in a database, in one transaction with what you write.
function receive(id, body) {
  if (seen.has(id)) return;
  const event = JSON.parse(body);
  console.log("handled", event.type, JSON.stringify(event.data));
  seen.add(id);
  appendFileSync(IDS, `${id}\n`);
}

const server = createServer(async (request, response) => {
  const answer = (status) => response.writeHead(status, { "content-length": 0 }).end();
  const parts = [];
  let bytes = 0;
  try {
    for await (const part of request) {
      bytes += part.length;
      if (bytes > MAX_BYTES) return answer(413);
      parts.push(part);
    }
    const body = Buffer.concat(parts);
    if (!isGenuine(request.headers, body)) return answer(401);
    receive(request.headers["webhook-id"], body);
    answer(204); // also for what we had already
  } catch (error) {
    console.log("failed", String(error));
    answer(500); // the event comes again later
  }
});
server.listen(PORT, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/`));
