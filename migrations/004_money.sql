-- What a call cost and what its owner pays for the job. Money is decimal and exact from the
-- price of a token to the sum of a year; nothing is rounded before somebody reads it.

-- An amount is finite: numeric knows NaN and Infinity, which compare as larger than all.
CREATE DOMAIN onejob_amount AS numeric CONSTRAINT onejob_amount_finite CHECK (VALUE > -1e15 AND VALUE < 1e15);
-- ISO 4217; XXX is its code for 'no currency', of a call that nobody put a price on.
CREATE DOMAIN onejob_currency AS text COLLATE "C" CONSTRAINT onejob_currency_code CHECK (VALUE ~ '^[A-Z]{3}$');

-- What one unit of a model costs us and what its owner pays, from a time on. A change is a
-- new row; a call is priced by what was valid when it started.
CREATE TABLE prices (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider    onejob_name     NOT NULL,
    model       text COLLATE "C" NOT NULL DEFAULT '', -- empty: the provider has none
    unit        text            NOT NULL
        CHECK (unit IN ('input', 'cached_input', 'output', 'reasoning', 'image', 'second', 'call')),
    price       onejob_amount   NOT NULL CHECK (price >= 0 AND scale(price) <= 12),
    charge      onejob_amount   NOT NULL CHECK (charge >= 0 AND scale(charge) <= 12),
    currency    onejob_currency NOT NULL CHECK (currency <> 'XXX'),
    valid_from  timestamptz     NOT NULL DEFAULT clock_timestamp(),
    recorded_by onejob_name     NOT NULL,
    recorded_at timestamptz     NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT prices_once UNIQUE (provider, model, unit, valid_from)
);
CREATE TRIGGER prices_append_only BEFORE UPDATE OR DELETE ON prices FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER prices_never_truncated BEFORE TRUNCATE ON prices FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

-- The units of one model are added up, so they have one currency.
CREATE FUNCTION onejob_price_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    other text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('onejob price ' || NEW.provider || ' ' || NEW.model, 0));
    SELECT currency INTO other FROM prices
    WHERE provider = NEW.provider AND model = NEW.model AND currency <> NEW.currency LIMIT 1;
    IF other IS NOT NULL THEN
        PERFORM onejob_refuse(format('provider %s, model %s: its prices are in %s, not in %s', NEW.provider, NEW.model, other, NEW.currency));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER prices_inserted BEFORE INSERT ON prices FOR EACH ROW EXECUTE FUNCTION onejob_price_inserted();

-- A usage is added up everywhere, so what cannot be is never kept: one such row would stop
-- every sum that it is in. What its known members count is whole and of a call. In plpgsql, as
-- all functions that each job calls and that cannot be inlined: it keeps their plans.
CREATE FUNCTION onejob_usage_ok(usage json) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE json_typeof(usage) WHEN 'object' THEN NOT EXISTS (
        SELECT FROM json_each(usage) m WHERE CASE
            WHEN m.key = 'estimated' THEN json_typeof(m.value) <> 'boolean'
            WHEN m.key NOT IN ('input_tokens', 'cached_input_tokens', 'output_tokens', 'reasoning_tokens', 'images', 'milliseconds') THEN false
            WHEN m.value::text ~ '^[0-9]{1,10}$' THEN m.value::text::bigint > 1000000000
            ELSE true END)
        ELSE usage IS NULL END;
END $$;

-- What a call used, unit by unit. Cached tokens are counted among the input's and reasoning
-- ones among the output's: each token is in one unit here. A negative count is none.
CREATE FUNCTION onejob_quantities(usage json) RETURNS TABLE (unit text, other text, quantity numeric)
LANGUAGE sql IMMUTABLE AS $$
    SELECT q.unit, q.other, greatest(q.quantity, 0) FROM (
        SELECT coalesce((usage ->> 'input_tokens')::numeric, 0) AS input, coalesce((usage ->> 'cached_input_tokens')::numeric, 0) AS cached,
               coalesce((usage ->> 'output_tokens')::numeric, 0) AS output, coalesce((usage ->> 'reasoning_tokens')::numeric, 0) AS reasoning,
               coalesce((usage ->> 'images')::numeric, 0) AS images, coalesce((usage ->> 'milliseconds')::numeric, 0) / 1000 AS seconds
    ) u, LATERAL (VALUES
        ('input', NULL, u.input - u.cached), ('cached_input', 'input', u.cached),
        ('output', NULL, u.output - u.reasoning), ('reasoning', 'output', u.reasoning),
        ('image', NULL, u.images), ('second', NULL, u.seconds), ('call', NULL, 1::numeric)
    ) AS q (unit, other, quantity)
$$;

-- What a usage comes to by the prices that were valid at a time. A unit without a price of
-- its own has that of the unit it is counted among; a call without a price is free. unpriced
-- says that some of it has no price: the amounts leave that out.
CREATE FUNCTION onejob_priced(the_provider text, the_model text, usage json, at timestamptz,
    OUT cost numeric, OUT charge numeric, OUT currency text, OUT prices json, OUT unpriced boolean)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    WITH valid AS (
        SELECT DISTINCT ON (p.unit) p.id, p.unit, p.price, p.charge, p.currency FROM prices p
        WHERE p.provider = the_provider AND p.model = the_model AND p.valid_from <= at
        ORDER BY p.unit, p.valid_from DESC
    ), lines AS (
        SELECT q.unit, q.quantity, v.id, v.price, v.charge, v.currency
        FROM onejob_quantities(usage) q
        LEFT JOIN valid own ON own.unit = q.unit
        LEFT JOIN valid v ON v.id = coalesce(own.id, (SELECT o.id FROM valid o WHERE o.unit = q.other))
        WHERE q.quantity > 0
    )
    SELECT coalesce(sum(quantity * price), 0), coalesce(sum(quantity * lines.charge), 0),
           coalesce((SELECT min(valid.currency) FROM valid), 'XXX'),
           coalesce(json_agg(json_build_object('id', id, 'unit', unit, 'quantity', quantity::text, 'price', price::text, 'charge', lines.charge::text)
                             ORDER BY unit) FILTER (WHERE id IS NOT NULL), '[]'),
           NOT EXISTS (SELECT FROM valid) OR coalesce(bool_or(id IS NULL) FILTER (WHERE unit <> 'call'), false)
    INTO cost, charge, currency, prices, unpriced
    FROM lines;
END $$;

-- Which of a provider's models was asked: prices are per model.
ALTER TABLE attempts ADD COLUMN model text COLLATE "C" NOT NULL DEFAULT '';
-- No default from here on: a program from before this column could not book what it calls for,
-- so it may not start an attempt.
ALTER TABLE attempts ALTER COLUMN model DROP DEFAULT;
-- What an earlier program kept of an answer and nobody can add up is as if it was not told.
UPDATE attempts SET usage = NULL WHERE NOT onejob_usage_ok(usage);
-- A success from before told no usage where an operator had found it out.
UPDATE attempts SET usage = '{"input_tokens":0,"output_tokens":0,"estimated":true}' WHERE state = 'succeeded' AND usage IS NULL;

ALTER TABLE attempts ADD CONSTRAINT attempts_usage_adds_up CHECK (onejob_usage_ok(usage));

CREATE FUNCTION onejob_attempt_repriced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('attempt %s of job %s: the model and the usage that it is priced by never change', OLD.number, OLD.job_id));
    RETURN NULL;
END $$;
CREATE TRIGGER attempts_repriced BEFORE UPDATE OF model, usage ON attempts FOR EACH ROW
    WHEN (NEW.model <> OLD.model OR OLD.usage IS NOT NULL AND OLD.state IN ('succeeded', 'failed', 'cancelled')
          AND NEW.usage::text IS DISTINCT FROM OLD.usage::text)
    EXECUTE FUNCTION onejob_attempt_repriced();

-- Every movement of money, once. An entry moves its amount from one account to another, so
-- the sum over all accounts is zero whatever is written; a balance is the sum over an account
-- and nothing else. What was booked wrongly is corrected by an entry that names it.
CREATE TABLE ledger (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source       onejob_name     NOT NULL, -- what made it, for instance attempt.cost:17; the key of its message too
    owner_id     onejob_name     NOT NULL CHECK (octet_length(owner_id) <= 200),
    kind         text            NOT NULL CHECK (kind IN ('charge', 'cost', 'credit', 'topup')),
    amount       onejob_amount   NOT NULL,
    currency     onejob_currency NOT NULL,
    job_id       uuid            REFERENCES jobs (id),
    attempt_id   bigint          REFERENCES attempts (id),
    provider     text COLLATE "C",
    model        text COLLATE "C",
    usage        json            CONSTRAINT ledger_usage_adds_up CHECK (onejob_usage_ok(usage)),
    prices       json            NOT NULL DEFAULT '[]', -- the snapshot: id, unit, quantity, price and charge of each line
    estimated    boolean         NOT NULL DEFAULT false, -- the provider told no usage
    unpriced     boolean         NOT NULL DEFAULT false, -- some of the usage had no price
    corrects     bigint          REFERENCES ledger (id),
    reason       text            CHECK (octet_length(reason) <= 4096),
    recorded_by  onejob_name     NOT NULL,
    created_at   timestamptz     NOT NULL DEFAULT clock_timestamp(),
    day          date            NOT NULL GENERATED ALWAYS AS ((created_at AT TIME ZONE 'UTC')::date) STORED,
    from_account text COLLATE "C" NOT NULL GENERATED ALWAYS AS (CASE kind
        WHEN 'topup' THEN 'world' WHEN 'credit' THEN 'credits' WHEN 'charge' THEN 'owner:' || owner_id ELSE 'costs' END) STORED,
    to_account   text COLLATE "C" NOT NULL GENERATED ALWAYS AS (CASE kind
        WHEN 'charge' THEN 'revenue' WHEN 'cost' THEN 'provider:' || provider ELSE 'owner:' || owner_id END) STORED,

    CONSTRAINT ledger_source UNIQUE (source),
    CONSTRAINT ledger_corrected_once UNIQUE (corrects),
    -- Less than nothing is moved only to take back what was moved.
    CONSTRAINT ledger_amount_positive CHECK (amount >= 0 OR corrects IS NOT NULL),
    CONSTRAINT ledger_work_is_named CHECK (kind NOT IN ('charge', 'cost')
        OR job_id IS NOT NULL AND attempt_id IS NOT NULL AND provider IS NOT NULL AND usage IS NOT NULL),
    CONSTRAINT ledger_priced_in_money CHECK (currency <> 'XXX' OR unpriced AND amount = 0)
);
CREATE UNIQUE INDEX ledger_one_charge ON ledger (job_id) WHERE kind = 'charge';
CREATE UNIQUE INDEX ledger_one_cost ON ledger (attempt_id) WHERE kind = 'cost' AND corrects IS NULL;
CREATE INDEX ledger_by_owner ON ledger (owner_id, id);
CREATE INDEX ledger_by_day ON ledger (day, owner_id);
CREATE INDEX ledger_unpriced ON ledger (id) WHERE unpriced;
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER ledger_never_truncated BEFORE TRUNCATE ON ledger FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

-- An entry belongs to what it names. A charge is the winner's, and stands in the transaction
-- that lets it win.
CREATE FUNCTION onejob_ledger_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    corrected ledger;
BEGIN
    IF NEW.attempt_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM attempts a JOIN jobs j ON j.id = a.job_id
        WHERE a.id = NEW.attempt_id AND j.id = NEW.job_id AND j.owner_id = NEW.owner_id)
    THEN
        PERFORM onejob_refuse(format('ledger entry %s: attempt %s is not of job %s and owner %s', NEW.source, NEW.attempt_id, NEW.job_id, NEW.owner_id));
    END IF;
    IF NEW.kind = 'charge' AND NOT EXISTS (
        SELECT FROM jobs j JOIN attempts a ON a.job_id = j.id AND a.number = j.completed_by
        WHERE j.id = NEW.job_id AND a.id = NEW.attempt_id)
    THEN
        PERFORM onejob_refuse(format('ledger entry %s: attempt %s did not win job %s', NEW.source, NEW.attempt_id, NEW.job_id));
    END IF;
    IF NEW.corrects IS NOT NULL THEN
        SELECT * INTO corrected FROM ledger WHERE id = NEW.corrects;
        IF corrected.owner_id <> NEW.owner_id OR corrected.currency <> NEW.currency OR corrected.corrects IS NOT NULL
            OR NOT (corrected.kind = 'charge' AND NEW.kind = 'credit' AND NEW.amount = corrected.amount
                    OR corrected.kind <> 'charge' AND NEW.kind = corrected.kind AND NEW.amount = -corrected.amount)
        THEN
            PERFORM onejob_refuse(format('ledger entry %s does not take back entry %s: same owner, same currency, the whole amount, once', NEW.source, NEW.corrects));
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER ledger_inserted AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION onejob_ledger_inserted();

-- Whatever answer carries usage books a cost, in the transaction that records it.
CREATE FUNCTION onejob_attempt_costs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger WHERE attempt_id = NEW.id AND kind = 'cost' AND corrects IS NULL) THEN
        PERFORM onejob_refuse(format('attempt %s of job %s: its usage was recorded without its cost', NEW.number, NEW.job_id));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER attempts_cost AFTER UPDATE ON attempts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.usage IS NOT NULL AND NEW.state IN ('succeeded', 'failed', 'cancelled')
          AND (OLD.usage IS NULL OR OLD.state <> NEW.state))
    EXECUTE FUNCTION onejob_attempt_costs();

-- A success is priced by its usage, estimated where nobody told it.
ALTER TABLE attempts ADD CONSTRAINT attempts_success_has_usage CHECK (state <> 'succeeded' OR usage IS NOT NULL);

-- A result that wins is charged for in the same transaction.
CREATE FUNCTION onejob_job_charged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger l JOIN attempts a ON a.id = l.attempt_id
                   WHERE l.job_id = NEW.id AND l.kind = 'charge' AND a.number = NEW.completed_by)
    THEN
        PERFORM onejob_refuse(format('job %s: attempt %s won without its charge', NEW.id, NEW.completed_by));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_charged AFTER UPDATE ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.completed_by IS NOT NULL AND OLD.completed_by IS NULL) EXECUTE FUNCTION onejob_job_charged();

-- What an owner may spend in a month, by UTC. The counter is the guard's own: it is moved by
-- the reservations below and by nothing else, and nothing is computed from summaries. Real use
-- above a reservation is booked in full, so spent may pass the limit.
CREATE TABLE budgets (
    owner_id onejob_name     NOT NULL CHECK (octet_length(owner_id) <= 200),
    month    date            NOT NULL CHECK (extract(day FROM month) = 1),
    "limit"  onejob_amount   CHECK ("limit" >= 0), -- null: none any more
    currency onejob_currency NOT NULL CHECK (currency <> 'XXX'),
    reserved onejob_amount   NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    spent    onejob_amount   NOT NULL DEFAULT 0 CHECK (spent >= 0),
    PRIMARY KEY (owner_id, month),
    CONSTRAINT budgets_currency UNIQUE (owner_id, month, currency) -- what a reservation refers to
);

-- What a job may come to, set aside before its first call: kept while an outcome is unknown,
-- settled once with the charge, released once when the job ends without one. A job that is
-- reopened reserves again.
CREATE TABLE reservations (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id     uuid          NOT NULL REFERENCES jobs (id),
    owner_id   onejob_name   NOT NULL,
    month      date          NOT NULL,
    currency   onejob_currency NOT NULL, -- the budget's
    amount     onejob_amount NOT NULL CHECK (amount >= 0),
    state      text          NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'settled', 'released')),
    settled    onejob_amount CHECK (settled >= 0), -- the charge, as far as it is in the currency
    created_at timestamptz   NOT NULL DEFAULT clock_timestamp(),
    closed_at  timestamptz,
    CONSTRAINT reservations_budget FOREIGN KEY (owner_id, month, currency) REFERENCES budgets (owner_id, month, currency),
    CONSTRAINT reservations_closed CHECK ((closed_at IS NOT NULL) = (state <> 'open')),
    CONSTRAINT reservations_settled CHECK ((settled IS NOT NULL) = (state = 'settled'))
);
CREATE UNIQUE INDEX reservations_one_open ON reservations (job_id) WHERE state = 'open';
CREATE INDEX reservations_by_job ON reservations (job_id);
CREATE INDEX reservations_by_month ON reservations (owner_id, month);

-- The budget guard: one conditional update decides. A reservation that does not fit is refused
-- by OJ002 and leaves nothing; one in another currency than the budget by OJ003.
CREATE FUNCTION onejob_reservation_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    budget budgets;
BEGIN
    IF NEW.state <> 'open' OR NOT EXISTS (SELECT FROM jobs WHERE id = NEW.job_id AND owner_id = NEW.owner_id AND finished_at IS NULL) THEN
        PERFORM onejob_refuse(format('job %s: a reservation starts open, of a job that is open, and is its owner''s', NEW.job_id));
    END IF;
    UPDATE budgets SET reserved = reserved + NEW.amount
    WHERE owner_id = NEW.owner_id AND month = NEW.month AND currency = NEW.currency
      AND ("limit" IS NULL OR reserved + spent + NEW.amount <= "limit");
    IF NOT FOUND THEN
        SELECT * INTO budget FROM budgets WHERE owner_id = NEW.owner_id AND month = NEW.month;
        IF budget.currency <> NEW.currency THEN
            RAISE EXCEPTION 'the budget of % for % is in % and job % reserves in %',
                NEW.owner_id, to_char(NEW.month, 'YYYY-MM'), budget.currency, NEW.job_id, NEW.currency USING ERRCODE = 'OJ003';
        END IF;
        RAISE EXCEPTION 'the budget of % for % is % %: % is spent and % reserved, and the job may come to %',
            NEW.owner_id, to_char(NEW.month, 'YYYY-MM'), trim_scale(budget."limit"), budget.currency,
            trim_scale(budget.spent), trim_scale(budget.reserved), trim_scale(NEW.amount)
            USING ERRCODE = 'OJ002';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER reservations_inserted BEFORE INSERT ON reservations FOR EACH ROW EXECUTE FUNCTION onejob_reservation_inserted();

CREATE FUNCTION onejob_reservation_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.job_id, NEW.owner_id, NEW.month, NEW.currency, NEW.amount, NEW.created_at)
       IS DISTINCT FROM (OLD.id, OLD.job_id, OLD.owner_id, OLD.month, OLD.currency, OLD.amount, OLD.created_at)
        OR OLD.state <> 'open'
    THEN
        PERFORM onejob_refuse(format('job %s: its reservation is closed once and never changes', OLD.job_id));
    END IF;
    UPDATE budgets SET reserved = reserved - OLD.amount, spent = spent + coalesce(NEW.settled, 0)
    WHERE owner_id = OLD.owner_id AND month = OLD.month;
    RETURN NEW;
END $$;
CREATE TRIGGER reservations_updated BEFORE UPDATE ON reservations FOR EACH ROW EXECUTE FUNCTION onejob_reservation_updated();
CREATE TRIGGER reservations_never_deleted BEFORE DELETE ON reservations FOR EACH ROW EXECUTE FUNCTION onejob_never_deleted();
CREATE TRIGGER reservations_never_truncated BEFORE TRUNCATE ON reservations FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();
CREATE TRIGGER budgets_never_deleted BEFORE DELETE ON budgets FOR EACH ROW EXECUTE FUNCTION onejob_never_deleted();
CREATE TRIGGER budgets_never_truncated BEFORE TRUNCATE ON budgets FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

-- The counters move with the reservations and by no other hand.
CREATE FUNCTION onejob_budget_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() < 2 AND (NEW.reserved, NEW.spent) IS DISTINCT FROM (OLD.reserved, OLD.spent)
        OR (NEW.owner_id, NEW.month, NEW.currency) IS DISTINCT FROM (OLD.owner_id, OLD.month, OLD.currency)
    THEN
        PERFORM onejob_refuse(format('budget of %s for %s: its counters move with reservations, and its currency never', OLD.owner_id, OLD.month));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER budgets_updated BEFORE UPDATE ON budgets FOR EACH ROW EXECUTE FUNCTION onejob_budget_updated();

CREATE FUNCTION onejob_budget_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('budget of %s for %s: its counters start at zero', NEW.owner_id, NEW.month));
    RETURN NULL;
END $$;
CREATE TRIGGER budgets_inserted BEFORE INSERT ON budgets FOR EACH ROW
    WHEN (NEW.reserved <> 0 OR NEW.spent <> 0) EXECUTE FUNCTION onejob_budget_inserted();

-- A job that ends closes its reservation in the same transaction, settled with its charge or
-- released; while it is open it keeps it open. A charge in another currency settles nothing:
-- what was paid for is not refused, and budgets do not mix currencies. A job without a
-- reservation passes: its owner had no budget when it was inserted.
CREATE FUNCTION onejob_check_reservation(the_job uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    job  record;
    last reservations;
BEGIN
    SELECT * INTO last FROM reservations WHERE job_id = the_job ORDER BY id DESC LIMIT 1;
    IF last.id IS NULL THEN
        RETURN;
    END IF;
    SELECT status INTO job FROM jobs WHERE id = the_job;
    IF last.state <> (CASE WHEN job.status = 'succeeded' THEN 'settled' WHEN job.status IN ('failed', 'cancelled') THEN 'released' ELSE 'open' END)
        OR last.state = 'settled' AND last.settled IS DISTINCT FROM (
            SELECT CASE WHEN currency = last.currency THEN amount ELSE 0 END FROM ledger WHERE job_id = the_job AND kind = 'charge')
    THEN
        PERFORM onejob_refuse(format('job %s: it is %s and its reservation is %s', the_job, job.status, last.state));
    END IF;
END $$;
CREATE FUNCTION onejob_job_budgeted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_check_reservation(NEW.id);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_budgeted AFTER UPDATE OF status ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.status IN ('succeeded', 'failed', 'cancelled') OR OLD.status = 'failed') EXECUTE FUNCTION onejob_job_budgeted();
CREATE FUNCTION onejob_reservation_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_check_reservation(NEW.job_id);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER reservations_kept AFTER UPDATE ON reservations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION onejob_reservation_kept();

-- The month whose budget an owner's job reserves in: this one, by UTC. A limit goes on until
-- it is changed, so a month without a row gets the latest one. Null: the owner has no budget.
CREATE FUNCTION onejob_budget_month(the_owner onejob_name) RETURNS date LANGUAGE plpgsql AS $$
DECLARE
    this_month date := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC');
BEGIN
    IF EXISTS (SELECT FROM budgets WHERE owner_id = the_owner AND month = this_month) THEN
        RETURN this_month;
    END IF;
    INSERT INTO budgets (owner_id, month, "limit", currency)
    SELECT owner_id, this_month, "limit", currency FROM budgets
    WHERE owner_id = the_owner AND month < this_month ORDER BY month DESC LIMIT 1
    ON CONFLICT DO NOTHING;
    RETURN (SELECT month FROM budgets WHERE owner_id = the_owner AND month = this_month);
END $$;

-- Reserves for those of the jobs that this transaction inserted and whose owner has a budget.
-- Each job has a line for each provider that it may ask, with the usage to reckon with: the
-- dearest counts. Jobs that may not be are refused together, by OJ002 and with their ids in
-- the detail: whoever submits leaves them out and inserts the rest. All rows of jobs are
-- inserted before the first budget is touched, and budgets in the order of their owners: the
-- order in which everybody else locks them.
CREATE FUNCTION onejob_reserve(ids uuid[], providers text[], models text[], usages json[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    job        record;
    this_month date;
    budget     budgets;
    estimate   record;
    refused    jsonb := '{}';
BEGIN
    FOR job IN
        SELECT j.id, j.owner_id FROM jobs j
        WHERE j.id = ANY (ids) AND j.xmin = pg_current_xact_id_if_assigned()::xid
          AND EXISTS (SELECT FROM budgets b WHERE b.owner_id = j.owner_id)
        ORDER BY j.owner_id, array_position(ids, j.id)
    LOOP
        this_month := onejob_budget_month(job.owner_id);
        SELECT * INTO budget FROM budgets WHERE owner_id = job.owner_id AND month = this_month;
        CONTINUE WHEN NOT FOUND;
        SELECT coalesce(max(p.charge), 0) AS amount, min(c.provider || ' is priced in ' || p.currency) FILTER (WHERE p.currency NOT IN ('XXX', budget.currency)) AS foreign_price
        INTO estimate
        FROM unnest(ids, providers, models, usages) AS c (id, provider, model, usage),
             LATERAL onejob_priced(c.provider, c.model, c.usage, clock_timestamp()) p
        WHERE c.id = job.id;
        BEGIN
            IF estimate.foreign_price IS NOT NULL THEN
                PERFORM onejob_refuse(format('the budget of %s is in %s and %s', job.owner_id, budget.currency, estimate.foreign_price));
            END IF;
            INSERT INTO reservations (job_id, owner_id, month, currency, amount) VALUES (job.id, job.owner_id, budget.month, budget.currency, estimate.amount);
        EXCEPTION WHEN SQLSTATE 'OJ001' OR SQLSTATE 'OJ002' THEN
            refused := refused || jsonb_build_object(job.id, jsonb_build_object('state', SQLSTATE, 'message', SQLERRM));
        END;
    END LOOP;
    IF refused <> '{}' THEN
        RAISE EXCEPTION '% of the jobs may not be inserted', (SELECT count(*) FROM jsonb_object_keys(refused)) USING ERRCODE = 'OJ002', DETAIL = refused;
    END IF;
END $$;

-- A job that is reopened reserves again what it reserved last, in the same currency.
CREATE FUNCTION onejob_reserve_again(the_job uuid) RETURNS void LANGUAGE sql AS $$
    INSERT INTO reservations (job_id, owner_id, month, currency, amount)
    SELECT job_id, owner_id, onejob_budget_month(owner_id), currency, amount FROM reservations
    WHERE job_id = the_job ORDER BY id DESC LIMIT 1
$$;

-- Whether an owner has a limit this month, by UTC.
CREATE FUNCTION onejob_limited(the_owner onejob_name) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT "limit" IS NOT NULL FROM budgets
                     WHERE owner_id = the_owner AND month <= clock_timestamp() AT TIME ZONE 'UTC' ORDER BY month DESC LIMIT 1), false);
END $$;

-- A job of an owner with a limit is inserted with its reservation. The state is one that is
-- repeated: the limit may have been set since the job's transaction looked.
CREATE FUNCTION onejob_job_reserved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF onejob_limited(NEW.owner_id) AND NOT EXISTS (SELECT FROM reservations WHERE job_id = NEW.id) THEN
        RAISE EXCEPTION 'job %: its owner % has a limit, and nothing is reserved for it', NEW.id, NEW.owner_id USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_reserved AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION onejob_job_reserved();

-- A job that never reserved is not reopened once its owner has a limit: nothing says what it
-- may come to.
CREATE FUNCTION onejob_job_reopened() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF onejob_limited(NEW.owner_id) AND NOT EXISTS (SELECT FROM reservations WHERE job_id = NEW.id) THEN
        RAISE EXCEPTION 'job % is older than the limit of % and has reserved nothing, so only a new key may ask again', NEW.id, NEW.owner_id
            USING ERRCODE = 'OJ002';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_reopened AFTER UPDATE OF status ON jobs FOR EACH ROW
    WHEN (OLD.status = 'failed' AND NEW.status = 'running') EXECUTE FUNCTION onejob_job_reopened();

---- create above / drop below ----

DROP TRIGGER jobs_reopened ON jobs;
DROP TRIGGER jobs_reserved ON jobs;
DROP FUNCTION onejob_job_reopened, onejob_job_reserved, onejob_limited;

DROP FUNCTION onejob_reserve_again, onejob_reserve, onejob_budget_month;
DROP TRIGGER jobs_budgeted ON jobs;
DROP TABLE reservations, budgets;
DROP TRIGGER jobs_charged ON jobs;
DROP TRIGGER attempts_cost ON attempts;
ALTER TABLE attempts DROP CONSTRAINT attempts_success_has_usage;
DROP TABLE ledger;
DROP TRIGGER attempts_repriced ON attempts;
ALTER TABLE attempts DROP COLUMN model, DROP CONSTRAINT attempts_usage_adds_up;
DROP FUNCTION onejob_attempt_repriced, onejob_reservation_kept, onejob_job_budgeted, onejob_check_reservation, onejob_budget_inserted, onejob_budget_updated, onejob_reservation_updated, onejob_reservation_inserted,
    onejob_job_charged, onejob_attempt_costs, onejob_ledger_inserted, onejob_priced, onejob_quantities, onejob_usage_ok;
DROP TABLE prices;
DROP FUNCTION onejob_price_inserted;
DROP DOMAIN onejob_currency, onejob_amount;
