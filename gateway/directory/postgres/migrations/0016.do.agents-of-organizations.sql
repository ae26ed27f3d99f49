-- AuthZEN's searches list the agents of one organization in the order of their ids.
create index on agents (organization_id, id);
