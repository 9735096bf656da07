// Asks the door by a vendor's own client, with the client's own retries, and prints as JSON what
// came of it. ASK says what to ask: vendor, address, token, key (empty: none) and stream.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const ask = JSON.parse(process.env.ASK);
const options = { headers: ask.key ? { "Idempotency-Key": ask.key } : {} };
const messages = [{ role: "user", content: "hello" }];

async function askOpenAI() {
  const client = new OpenAI({ apiKey: ask.token, baseURL: ask.address + "/v1", maxRetries: 4 });
  const body = { model: "m-large", messages };
  if (!ask.stream) {
    const { data, response } = await client.chat.completions.create(body, options).withResponse();
    return { id: data.id, text: data.choices[0].message.content, ...seen(response) };
  }
  const { data, response } = await client.chat.completions.create({ ...body, stream: true }, options).withResponse();
  const got = { text: "", ...seen(response) };
  for await (const chunk of data) {
    got.id = chunk.id;
    got.text += chunk.choices[0]?.delta?.content ?? "";
  }
  return got;
}

async function askAnthropic() {
  const client = new Anthropic({ apiKey: ask.token, baseURL: ask.address, maxRetries: 4 });
  const body = { model: "c-large", max_tokens: 100, messages };
  if (!ask.stream) {
    const { data, response } = await client.messages.create(body, options).withResponse();
    return { id: data.id, text: data.content[0].text, ...seen(response) };
  }
  const stream = client.messages.stream(body, options);
  const { response } = await stream.withResponse();
  const message = await stream.finalMessage();
  return { id: message.id, text: message.content[0].text, ...seen(response) };
}

function seen(response) {
  return { job: response.headers.get("onejob-job"), replayed: response.headers.get("idempotency-replayed") };
}

let got;
try {
  got = await (ask.vendor === "openai" ? askOpenAI() : askAnthropic());
} catch (error) {
  got = { status: error.status, error: String(error.message) };
}
console.log(JSON.stringify(got));
